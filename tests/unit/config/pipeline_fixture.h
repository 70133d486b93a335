// A folder of its own for each test, and the short ways to load a pipeline from a text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/pipeline.h"

namespace kvplane {

class PipelineTest : public testing::Test {
protected:
    void SetUp() override {
        const auto* test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::temp_directory_path() /
                  ("kvplane-" + std::to_string(::getpid()) + "-" + test->test_suite_name() + "-" + test->name());
        std::filesystem::create_directories(folder_);
        request_.file = folder_ / "pipeline.toml";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    Pipeline load(const std::string& text, std::vector<std::string> overrides = {},
                  std::map<std::string, std::string> environment = {}) {
        std::ofstream(request_.file, std::ios::binary) << text;
        request_.overrides = std::move(overrides);
        request_.environment = std::move(environment);
        return Pipeline::load(request_);
    }

    // The message of the refusal, with the folder's name taken out; a failure when nothing was refused.
    std::string refusal(const std::function<void()>& work) {
        try {
            work();
        } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::config);
            std::string text = error.what();
            const std::string folder = folder_.string() + "/";
            for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder)) {
                text.erase(at, folder.size());
            }
            return text;
        }
        ADD_FAILURE() << "nothing was refused";
        return {};
    }

    std::string load_refusal(const std::string& text, std::vector<std::string> overrides = {},
                             std::map<std::string, std::string> environment = {}) {
        return refusal([&] { load(text, std::move(overrides), std::move(environment)); });
    }

    std::filesystem::path folder_;
    PipelineRequest request_;
};

}  // namespace kvplane

#include "engine/aux_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace kvplane {
namespace {

class AuxFile : public testing::Test {
protected:
    AuxFile() {
        for (int i = 0; i < 1000; ++i) data.push_back(static_cast<std::byte>(i * 7));
        write_aux_file(path, "infinigen", 42, data);
    }
    ~AuxFile() override { std::filesystem::remove(path); }

    std::string refusal(const std::string& strategy = "infinigen", uint64_t fingerprint = 42) {
        try {
            read_aux_file(path, strategy, fingerprint);
        } catch (const Error& error) {
            EXPECT_EQ(error.kind(), ErrorKind::config);
            return error.what();
        }
        return "accepted";
    }

    // Tests of one program may run at the same time.
    std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / ("kvplane-" + std::to_string(getpid()) + "-aux-file-test.aux");
    std::vector<std::byte> data;
};

TEST_F(AuxFile, gives_back_what_was_written) {
    EXPECT_EQ(read_aux_file(path, "infinigen", 42), data);
}

TEST_F(AuxFile, refuses_another_strategy_and_another_model) {
    EXPECT_NE(refusal("quest").find("for KV strategy infinigen, not quest"), std::string::npos);
    EXPECT_NE(refusal("infinigen", 43).find("another model"), std::string::npos);
}

TEST_F(AuxFile, refuses_every_shorter_file) {
    const auto whole = std::filesystem::file_size(path);
    for (uint64_t size = whole; size-- > 0;) {
        std::filesystem::resize_file(path, size);
        EXPECT_NE(refusal(), "accepted") << size;
    }
}

TEST_F(AuxFile, finds_every_changed_byte) {
    const auto whole = std::filesystem::file_size(path);
    for (uint64_t at = 0; at < whole; ++at) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(at));
        const auto old = static_cast<char>(file.get());
        file.seekp(static_cast<std::streamoff>(at));
        file.put(static_cast<char>(old ^ 0x20));
        file.close();
        EXPECT_NE(refusal(), "accepted") << at;
        std::fstream restore(path, std::ios::in | std::ios::out | std::ios::binary);
        restore.seekp(static_cast<std::streamoff>(at));
        restore.put(old);
    }
}

TEST_F(AuxFile, says_where_it_could_not_be_written) {
    EXPECT_THROW(write_aux_file("/no-such-folder/x.aux", "infinigen", 42, data), Error);
}

}  // namespace
}  // namespace kvplane

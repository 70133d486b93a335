// A folder of a test's own, gone with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace kvplane::test {

class TempFolder {
public:
    TempFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "kvplane-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
        path_ = name;
    }
    ~TempFolder() { std::filesystem::remove_all(path_); }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

// One of the tiny plugins of tests/plugins.
inline std::filesystem::path test_plugin(const std::string& name) {
    return std::filesystem::path(KVPLANE_TEST_PLUGIN_DIR) / (name + ".so");
}

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

// The text of what `body` throws; fails the test when it throws nothing.
template <class Body>
std::string message_of(Body&& body) {
    try {
        body();
    } catch (const std::exception& error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
}

}  // namespace kvplane::test

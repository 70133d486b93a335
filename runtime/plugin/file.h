// A plugin's file, opened once: what it is checked for before any byte of it is believed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace kvplane {

class PluginFile {
public:
    // Opens it without running anything. Throws Error(plugin), whose text is the reason alone, when it is not a regular
    // file, belongs to somebody who could as well have changed it (neither root nor us), or everybody may write to it.
    explicit PluginFile(const std::filesystem::path& path);
    ~PluginFile();
    PluginFile(PluginFile&& other) noexcept;
    PluginFile(const PluginFile&) = delete;
    PluginFile& operator=(const PluginFile&) = delete;

    uint64_t size() const { return size_; }

    // Device and inode: one library under two names is one library.
    using Identity = std::pair<dev_t, ino_t>;
    Identity identity() const { return identity_; }

    // Fills `out` from `offset`. Throws Error(plugin) when the file ends before.
    void read(uint64_t offset, std::span<std::byte> out) const;

private:
    int descriptor_;
    uint64_t size_ = 0;
    Identity identity_;
};

}  // namespace kvplane

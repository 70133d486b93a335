// A whole file, mapped read-only: weights are paged in as they are touched and cost no private memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace kvplane {

class MappedFile {
public:
    MappedFile() = default;  // maps nothing
    // Throws Error(model) if the path is no readable regular file.
    explicit MappedFile(const std::string& path);
    ~MappedFile();
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;

    std::span<const std::byte> bytes() const noexcept { return bytes_; }

private:
    std::span<const std::byte> bytes_;
};

}  // namespace kvplane

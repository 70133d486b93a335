#include "plugin/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/checked.h"
#include "base/error.h"

namespace kvplane {

namespace {

std::string reason_of(int error) {
    return std::generic_category().message(error);
}

void check(const struct stat& status) {
    if (!S_ISREG(status.st_mode)) throw Error(ErrorKind::plugin, "not a regular file");
    if (status.st_uid != 0 && status.st_uid != geteuid()) {
        throw Error(ErrorKind::plugin, "belongs to user " + std::to_string(status.st_uid) +
                                           ", neither to root nor to the user that runs this; change its owner");
    }
    if ((status.st_mode & S_IWOTH) != 0) {
        throw Error(ErrorKind::plugin, "everybody may write to it; take that right away (chmod o-w)");
    }
}

}  // namespace

PluginFile::PluginFile(const std::filesystem::path& path)
    // O_NONBLOCK: a FIFO of that name must not hang the loader.
    : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) throw Error(ErrorKind::plugin, "cannot open the file: " + reason_of(errno));
    try {
        struct stat status;
        if (fstat(descriptor_, &status) != 0) throw Error(ErrorKind::plugin, "cannot stat: " + reason_of(errno));
        check(status);
        size_ = static_cast<uint64_t>(status.st_size);
        identity_ = {status.st_dev, status.st_ino};
    } catch (...) {
        close(descriptor_);
        throw;
    }
}

PluginFile::~PluginFile() {
    if (descriptor_ >= 0) close(descriptor_);
}

PluginFile::PluginFile(PluginFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_), identity_(other.identity_) {}

void PluginFile::read(uint64_t offset, std::span<std::byte> out) const {
    const auto end = checked_add(offset, out.size());
    if (!end || *end > size_) {
        throw Error(ErrorKind::plugin, "the file is truncated: it has " + std::to_string(size_) +
                                           " bytes and refers to " + std::to_string(out.size()) + " at offset " +
                                           std::to_string(offset));
    }
    while (!out.empty()) {
        const ssize_t n = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw Error(ErrorKind::plugin, "cannot read the file: " + reason_of(errno));
        if (n == 0) throw Error(ErrorKind::plugin, "the file became shorter while it was read");
        offset += static_cast<uint64_t>(n);
        out = out.subspan(static_cast<size_t>(n));
    }
}

}  // namespace kvplane

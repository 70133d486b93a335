#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kvplane {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
    throw Error(ErrorKind::model, path + ": " + what);
}

// O_NONBLOCK: opening a pipe by mistake is an error, not a wait.
class Descriptor {
public:
    explicit Descriptor(const std::string& path) : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int value() const { return value_; }

private:
    int value_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) {
    const Descriptor file(path);
    if (file.value() < 0) fail(path, std::string("cannot open the model file: ") + std::strerror(errno));
    struct stat status {};
    if (::fstat(file.value(), &status) != 0) fail(path, std::string("cannot read the size: ") + std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail(path, "not a regular file; give the path of a GGUF model file");
    if (status.st_size == 0) fail(path, "the file is empty; was its download cut off?");
    const size_t size = static_cast<size_t>(status.st_size);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
    if (address == MAP_FAILED) {
        fail(path, "cannot map " + std::to_string(size) + " bytes: " + std::strerror(errno));
    }
    bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

}  // namespace kvplane

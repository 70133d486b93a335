// Aligned arrays of the plugin's own, and the scratch that a queue keeps from op to op.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace kvplane::cpu {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kHugePage = uint64_t{2} << 20;

struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<uint8_t, FreeMemory>;

// Uninitialised; on huge pages where it is large. Throws std::bad_alloc.
Memory allocate(uint64_t n_bytes, uint64_t alignment = kAlignment);

// Arrays that stay for long, cut one after another from large runs of huge pages: the weights of one layer
// would not fill such a page, and on small ones the processor neither finds nor reads ahead as fast.
class SharedPages {
public:
    // Uninitialised, aligned to kAlignment; the run stays as long as an array of it. Throws std::bad_alloc.
    std::shared_ptr<uint8_t> allocate(uint64_t n_bytes);

private:
    std::mutex mutex_;
    std::shared_ptr<uint8_t> run_;
    uint64_t used_ = 0;
    uint64_t size_ = 0;
};

// Grows and never shrinks. What it held is lost when it grows.
template <typename T>
class Scratch {
public:
    T* get(int64_t n) {
        if (n > size_) {
            memory_.reset();
            size_ = 0;
            const int64_t roomy = n + n / 2;
            memory_ = allocate(static_cast<uint64_t>(roomy) * sizeof(T));
            size_ = roomy;
        }
        return reinterpret_cast<T*>(memory_.get());
    }

private:
    Memory memory_;
    int64_t size_ = 0;
};

}  // namespace kvplane::cpu

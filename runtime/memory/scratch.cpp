#include "memory/scratch.h"

#include <algorithm>

namespace kvplane {

namespace {
constexpr uint64_t block_bytes = 1 << 20;
constexpr uint64_t alignment = 64;
}  // namespace

kvp_address Scratch::take(uint64_t bytes) {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].bytes()) {
        ++block_;
        used_ = 0;
    }
    if (block_ == blocks_.size()) {
        blocks_.emplace_back(device_, std::max(bytes, block_bytes), "scratch of a step");
        used_ = 0;
    }
    const kvp_address address = blocks_[block_].address() + used_;
    used_ += bytes;
    return address;
}

void Scratch::reset() {
    block_ = 0;
    used_ = 0;
}

}  // namespace kvplane

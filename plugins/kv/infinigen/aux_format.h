// The calibration as bytes (kv.aux): one orthogonal matrix a layer and KV head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvplane::infinigen {

// values f32[n_layers][n_kv_heads][head_size][head_size]; a row vector x of q or k becomes x * A.
struct SkewMatrices {
    uint32_t n_layers = 0;
    uint32_t n_kv_heads = 0;
    uint32_t head_size = 0;
    std::vector<float> values;

    uint64_t layer_values() const { return uint64_t{n_kv_heads} * head_size * head_size; }
    std::span<const float> layer(uint32_t index) const {
        return std::span(values).subspan(index * layer_values(), layer_values());
    }
};

// Little-endian: magic, version, sizes, checksum, then the values.
std::vector<std::byte> encode(const SkewMatrices& matrices);

// `expected` says the sizes that the model has. Throws kvp::Failure: KVP_ERROR_VERSION for another version or another
// strategy's blob, KVP_ERROR_INVALID for other sizes, KVP_ERROR_CORRUPT for bytes that cannot be a calibration (too
// few, too many, a wrong checksum, a matrix that is not orthogonal: the scores of such a one would mean nothing).
SkewMatrices decode(std::span<const std::byte> bytes, const SkewMatrices& expected);

}  // namespace kvplane::infinigen

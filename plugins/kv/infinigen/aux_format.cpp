#include "aux_format.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "kvplane/sdk/host.hpp"

namespace kvplane::infinigen {

namespace {

static_assert(std::endian::native == std::endian::little, "the format is written as it lies in memory");

constexpr char magic[8] = {'K', 'V', 'P', 'I', 'S', 'K', 'E', 'W'};
constexpr uint32_t version = 1;
constexpr float orthogonality_tolerance = 1e-4f;

struct Header {
    char magic[8];
    uint32_t version;
    uint32_t n_layers;
    uint32_t n_kv_heads;
    uint32_t head_size;
    uint64_t checksum;  // of the values
};
static_assert(sizeof(Header) == 32);

uint64_t fnv1a(std::span<const std::byte> bytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    return hash;
}

[[noreturn]] void refuse(kvp_status status, const std::string& what) {
    throw kvp::Failure(status, "calibration: " + what + "; make it again with `kvplane calibrate kv`");
}

// Also false when a value is not finite: every comparison with NaN is.
bool is_orthogonal(std::span<const float> matrix, uint32_t size) {
    for (uint32_t a = 0; a < size; a++) {
        for (uint32_t b = 0; b <= a; b++) {
            float product = 0;
            for (uint32_t i = 0; i < size; i++) product += matrix[i * size + a] * matrix[i * size + b];
            if (!(std::abs(product - (a == b ? 1.0f : 0.0f)) <= orthogonality_tolerance)) return false;
        }
    }
    return true;
}

}  // namespace

std::vector<std::byte> encode(const SkewMatrices& matrices) {
    const auto values = std::as_bytes(std::span(matrices.values));
    Header header{{}, version, matrices.n_layers, matrices.n_kv_heads, matrices.head_size, fnv1a(values)};
    std::memcpy(header.magic, magic, sizeof magic);
    std::vector<std::byte> bytes(sizeof header + values.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    if (!values.empty()) std::memcpy(bytes.data() + sizeof header, values.data(), values.size());
    return bytes;
}

SkewMatrices decode(std::span<const std::byte> bytes, const SkewMatrices& expected) {
    Header header{};
    if (bytes.size() < sizeof header) {
        refuse(KVP_ERROR_CORRUPT, std::to_string(bytes.size()) + " bytes are less than its header");
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.magic, magic, sizeof magic) != 0) refuse(KVP_ERROR_VERSION, "not one of infinigen");
    if (header.version != version) {
        refuse(KVP_ERROR_VERSION,
               "format version " + std::to_string(header.version) + ", this plugin reads " + std::to_string(version));
    }
    if (header.n_layers != expected.n_layers || header.n_kv_heads != expected.n_kv_heads ||
        header.head_size != expected.head_size) {
        refuse(KVP_ERROR_INVALID, "made for " + std::to_string(header.n_layers) + " layers, " +
                                      std::to_string(header.n_kv_heads) + " KV heads of " +
                                      std::to_string(header.head_size) + ", the model has " +
                                      std::to_string(expected.n_layers) + ", " + std::to_string(expected.n_kv_heads) +
                                      " of " + std::to_string(expected.head_size));
    }
    // The sizes are the model's from here on, so the product is one that the model itself has survived.
    SkewMatrices matrices{expected.n_layers, expected.n_kv_heads, expected.head_size, {}};
    const uint64_t n_values = matrices.n_layers * matrices.layer_values();
    const auto values = bytes.subspan(sizeof header);
    if (values.size() != n_values * sizeof(float)) {
        refuse(KVP_ERROR_CORRUPT, std::to_string(values.size()) + " bytes of values instead of " +
                                      std::to_string(n_values * sizeof(float)));
    }
    if (fnv1a(values) != header.checksum) refuse(KVP_ERROR_CORRUPT, "the checksum does not match");
    matrices.values.resize(n_values);
    std::memcpy(matrices.values.data(), values.data(), values.size());
    const uint64_t matrix_values = uint64_t{matrices.head_size} * matrices.head_size;
    for (uint64_t begin = 0; begin < n_values; begin += matrix_values) {
        if (!is_orthogonal(std::span(matrices.values).subspan(begin, matrix_values), matrices.head_size)) {
            refuse(KVP_ERROR_CORRUPT,
                   "a matrix of layer " + std::to_string(begin / matrices.layer_values()) + " is not orthogonal");
        }
    }
    return matrices;
}

}  // namespace kvplane::infinigen

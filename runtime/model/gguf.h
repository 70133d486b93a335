// A GGUF model file, version 2 or 3: typed metadata and the table of tensors, over a read-only map of the file.
// Nothing in the file is trusted. Every count, length, offset and type is checked at opening, before anything is sized
// by it, so that whatever a GgufFile hands out lies inside the file. All errors are Error(model) and name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/mapped_file.h"
#include "model/tensor.h"

namespace kvplane {

// The values are the ids in the file.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

std::string_view to_string(GgufType type) noexcept;

// A key with its value, still in the file's encoding; the accessors of GgufFile decode it.
struct GgufEntry {
    std::string_view key;
    GgufType type;
    GgufType element_type;  // of an array; otherwise `type`
    uint64_t count;         // elements of an array; otherwise 1
    const std::byte* data;  // of the first element; a string starts with its u64 length
};

class GgufFile {
public:
    static GgufFile open(const std::string& path);
    // Reads from memory, which must outlive the result; `name` stands for the path in messages.
    static GgufFile parse(std::span<const std::byte> bytes, std::string name);

    const std::string& path() const noexcept { return path_; }
    uint32_t version() const noexcept { return version_; }
    uint64_t file_bytes() const noexcept { return file_bytes_; }

    std::span<const GgufEntry> entries() const noexcept { return entries_; }  // in the file's order
    const GgufEntry* find(std::string_view key) const noexcept;
    // The value for a person to read, on one line: control bytes escaped, cut to about `width` bytes.
    std::string describe(const GgufEntry& entry, size_t width = 72) const;

    std::span<const TensorView> tensors() const noexcept { return tensors_; }  // in the file's order
    const TensorView* find_tensor(std::string_view name) const noexcept;

    // find_*: empty if the key is missing. get_*: a missing key is an error. Both refuse a value of another type.
    // Integers of any width are taken if the value fits; floats may be f32 or f64; a bool is no number.
    std::optional<uint32_t> find_u32(std::string_view key) const;
    std::optional<int32_t> find_i32(std::string_view key) const;
    std::optional<uint64_t> find_u64(std::string_view key) const;
    std::optional<float> find_f32(std::string_view key) const;
    std::optional<bool> find_bool(std::string_view key) const;
    std::optional<std::string_view> find_string(std::string_view key) const;
    std::optional<std::vector<uint32_t>> find_u32_array(std::string_view key) const;
    std::optional<std::vector<int32_t>> find_i32_array(std::string_view key) const;
    std::optional<std::vector<float>> find_f32_array(std::string_view key) const;
    std::optional<std::vector<std::string_view>> find_string_array(std::string_view key) const;

    uint32_t get_u32(std::string_view key) const { return required(key, find_u32(key)); }
    int32_t get_i32(std::string_view key) const { return required(key, find_i32(key)); }
    uint64_t get_u64(std::string_view key) const { return required(key, find_u64(key)); }
    float get_f32(std::string_view key) const { return required(key, find_f32(key)); }
    bool get_bool(std::string_view key) const { return required(key, find_bool(key)); }
    std::string_view get_string(std::string_view key) const { return required(key, find_string(key)); }
    std::vector<int32_t> get_i32_array(std::string_view key) const { return required(key, find_i32_array(key)); }
    std::vector<float> get_f32_array(std::string_view key) const { return required(key, find_f32_array(key)); }
    std::vector<std::string_view> get_string_array(std::string_view key) const {
        return required(key, find_string_array(key));
    }

    // Throws Error(model): "PATH: WHAT".
    [[noreturn]] void fail(const std::string& what) const;

private:
    friend class GgufParser;
    GgufFile() = default;

    template <class T>
    T required(std::string_view key, std::optional<T> value) const {
        if (!value) fail_missing(key);
        return *std::move(value);
    }
    [[noreturn]] void fail_missing(std::string_view key) const;
    [[noreturn]] void fail_type(const GgufEntry& entry, std::string_view expected) const;
    const GgufEntry* find_array(std::string_view key) const;
    template <class T>
    T integer(const GgufEntry& entry, uint64_t index) const;
    template <class T>
    std::optional<T> find_integer(std::string_view key) const;
    template <class T>
    std::optional<std::vector<T>> find_integer_array(std::string_view key) const;
    float real(const GgufEntry& entry, uint64_t index) const;

    MappedFile map_;  // empty where the bytes are the caller's
    std::string path_;
    uint32_t version_ = 0;
    uint64_t file_bytes_ = 0;
    std::vector<GgufEntry> entries_;
    std::vector<size_t> entries_by_key_;
    std::vector<TensorView> tensors_;
    std::vector<size_t> tensors_by_name_;
};

}  // namespace kvplane

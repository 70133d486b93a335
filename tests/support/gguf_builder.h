// Builds GGUF files in memory for tests, sound ones and (through its public fields) broken ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvplane::test {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t start = bytes.size();
    bytes.resize(start + sizeof value);
    std::memcpy(bytes.data() + start, &value, sizeof value);
}

inline void append_raw(Bytes& bytes, std::string_view text) {
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), data, data + text.size());
}

inline void append_string(Bytes& bytes, std::string_view text) {
    append(bytes, uint64_t{text.size()});
    append_raw(bytes, text);
}

// The type ids of metadata values, spelled out here so that tests do not lean on the reader's own table.
enum : uint32_t {
    gguf_u8 = 0,
    gguf_i8 = 1,
    gguf_u16 = 2,
    gguf_i16 = 3,
    gguf_u32 = 4,
    gguf_i32 = 5,
    gguf_f32 = 6,
    gguf_bool = 7,
    gguf_string = 8,
    gguf_array = 9,
    gguf_u64 = 10,
    gguf_i64 = 11,
    gguf_f64 = 12
};

class GgufBuilder {
public:
    struct Tensor {
        std::string name;
        std::vector<uint64_t> shape;
        uint32_t type;
        Bytes data;
        std::optional<uint64_t> offset;  // stated instead of the true one
        std::optional<uint32_t> dims;    // stated instead of shape.size()
    };

    // What the file states instead of the truth.
    std::string magic = "GGUF";
    uint32_t version = 3;
    std::optional<uint64_t> tensor_count, entry_count;
    uint64_t alignment = 32;  // used for the layout; not written to the metadata

    std::vector<std::pair<std::string, Bytes>> entries;  // key; type and value as they stand in the file
    std::vector<Tensor> tensors;

    GgufBuilder& raw(const std::string& key, Bytes type_and_value) {
        entries.emplace_back(key, std::move(type_and_value));
        return *this;
    }
    template <class T>
    GgufBuilder& value(const std::string& key, uint32_t type, T number) {
        Bytes bytes;
        append(bytes, type);
        append(bytes, number);
        return raw(key, std::move(bytes));
    }
    GgufBuilder& u32(const std::string& key, uint32_t number) { return value(key, gguf_u32, number); }
    GgufBuilder& f32(const std::string& key, float number) { return value(key, gguf_f32, number); }
    GgufBuilder& boolean(const std::string& key, bool truth) {
        return value(key, gguf_bool, static_cast<uint8_t>(truth));
    }
    GgufBuilder& string(const std::string& key, std::string_view text) {
        Bytes bytes;
        append(bytes, uint32_t{gguf_string});
        append_string(bytes, text);
        return raw(key, std::move(bytes));
    }
    GgufBuilder& string_array(const std::string& key, const std::vector<std::string>& texts) {
        Bytes bytes = array_head(gguf_string, texts.size());
        for (const std::string& text : texts) append_string(bytes, text);
        return raw(key, std::move(bytes));
    }
    template <class T>
    GgufBuilder& array(const std::string& key, uint32_t type, const std::vector<T>& numbers) {
        Bytes bytes = array_head(type, numbers.size());
        for (const T number : numbers) append(bytes, number);
        return raw(key, std::move(bytes));
    }
    GgufBuilder& tensor(const std::string& name, std::vector<uint64_t> shape, uint32_t type, Bytes data) {
        tensors.push_back({name, std::move(shape), type, std::move(data), {}, {}});
        return *this;
    }
    // An f32 tensor of zeros.
    GgufBuilder& zeros(const std::string& name, const std::vector<uint64_t>& shape) {
        uint64_t elements = 1;
        for (const uint64_t extent : shape) elements *= extent;
        return tensor(name, shape, 0, Bytes(elements * 4));
    }

    GgufBuilder& remove(const std::string& key) {
        std::erase_if(entries, [&](const auto& entry) { return entry.first == key; });
        return *this;
    }
    GgufBuilder& remove_tensor(const std::string& name) {
        std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name == name; });
        return *this;
    }
    Tensor& find_tensor(const std::string& name) {
        for (Tensor& tensor : tensors) {
            if (tensor.name == name) return tensor;
        }
        throw std::logic_error("the builder has no tensor " + name);
    }

    Bytes build() const {
        Bytes file = header();
        file.resize(rounded(file.size()));
        for (const Tensor& tensor : tensors) {
            file.insert(file.end(), tensor.data.begin(), tensor.data.end());
            if (&tensor != &tensors.back()) file.resize(rounded(file.size()));
        }
        return file;
    }

    // Where the data of each tensor starts and ends in build()'s result, and where the header ends.
    std::vector<size_t> borders() const {
        size_t position = header().size();
        std::vector<size_t> found = {position};
        for (const Tensor& tensor : tensors) {
            position = rounded(position);
            found.push_back(position);
            position += tensor.data.size();
            found.push_back(position);
        }
        return found;
    }

private:
    static Bytes array_head(uint32_t type, uint64_t count) {
        Bytes bytes;
        append(bytes, uint32_t{gguf_array});
        append(bytes, type);
        append(bytes, count);
        return bytes;
    }

    size_t rounded(size_t size) const { return (size + alignment - 1) / alignment * alignment; }

    Bytes header() const {
        Bytes file;
        append_raw(file, magic);
        append(file, version);
        append(file, tensor_count.value_or(tensors.size()));
        append(file, entry_count.value_or(entries.size()));
        for (const auto& [key, value] : entries) {
            append_string(file, key);
            file.insert(file.end(), value.begin(), value.end());
        }
        uint64_t offset = 0;
        for (const Tensor& tensor : tensors) {
            append_string(file, tensor.name);
            append(file, tensor.dims.value_or(static_cast<uint32_t>(tensor.shape.size())));
            for (const uint64_t extent : tensor.shape) append(file, extent);
            append(file, tensor.type);
            append(file, tensor.offset.value_or(offset));
            offset = rounded(offset + tensor.data.size());
        }
        return file;
    }
};

}  // namespace kvplane::test

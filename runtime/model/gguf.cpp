#include "model/gguf.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "model/gguf_value.h"
#include "model/utf8.h"

namespace kvplane {

namespace {

std::string_view string_at(const std::byte* data) {
    return {reinterpret_cast<const char*>(data + 8), static_cast<size_t>(load<uint64_t>(data))};
}

// The shortest decimal form that reads back as the same float.
std::string real_text(double value) {
    char buffer[32];
    for (int digits = 6; digits <= 17; ++digits) {
        std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
        if (std::strtof(buffer, nullptr) == static_cast<float>(value)) break;
    }
    return buffer;
}

std::string value_text(GgufType type, const std::byte* data, size_t width) {
    switch (type) {
        case GgufType::u8: return std::to_string(load<uint8_t>(data));
        case GgufType::i8: return std::to_string(load<int8_t>(data));
        case GgufType::u16: return std::to_string(load<uint16_t>(data));
        case GgufType::i16: return std::to_string(load<int16_t>(data));
        case GgufType::u32: return std::to_string(load<uint32_t>(data));
        case GgufType::i32: return std::to_string(load<int32_t>(data));
        case GgufType::u64: return std::to_string(load<uint64_t>(data));
        case GgufType::i64: return std::to_string(load<int64_t>(data));
        case GgufType::f32: return real_text(load<float>(data));
        case GgufType::f64: return real_text(load<double>(data));
        case GgufType::boolean: return load<uint8_t>(data) ? "true" : "false";
        case GgufType::string: return printable(string_at(data), width);
        case GgufType::array: break;
    }
    return {};
}

const std::byte* next_value(GgufType type, const std::byte* data) {
    return data + (type == GgufType::string ? 8 + load<uint64_t>(data) : value_bytes(type));
}

}  // namespace

std::string printable(std::string_view text, size_t width) {
    std::string line;
    for (size_t at = 0; at < text.size();) {
        if (line.size() >= width) return line + "...";
        const Utf8Character character = decode_utf8(text, at);
        const bool control =
            character.code_point < 0x20 || (character.code_point >= 0x7f && character.code_point < 0xa0);
        if (character.valid && !control) {
            line += text.substr(at, character.length);
        } else if (text[at] == '\n') {
            line += "\\n";
        } else {
            char escape[8];
            for (uint32_t i = 0; i < character.length; ++i) {
                std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<uint8_t>(text[at + i]));
                line += escape;
            }
        }
        at += character.length;
    }
    return line;
}

std::string_view to_string(GgufType type) noexcept {
    switch (type) {
        case GgufType::u8: return "u8";
        case GgufType::i8: return "i8";
        case GgufType::u16: return "u16";
        case GgufType::i16: return "i16";
        case GgufType::u32: return "u32";
        case GgufType::i32: return "i32";
        case GgufType::f32: return "f32";
        case GgufType::boolean: return "bool";
        case GgufType::string: return "string";
        case GgufType::array: return "array";
        case GgufType::u64: return "u64";
        case GgufType::i64: return "i64";
        case GgufType::f64: return "f64";
    }
    return "unknown";
}

const GgufEntry* GgufFile::find(std::string_view key) const noexcept {
    const auto found = std::lower_bound(entries_by_key_.begin(), entries_by_key_.end(), key,
                                        [&](size_t i, std::string_view wanted) { return entries_[i].key < wanted; });
    if (found == entries_by_key_.end() || entries_[*found].key != key) return nullptr;
    return &entries_[*found];
}

const TensorView* GgufFile::find_tensor(std::string_view name) const noexcept {
    const auto found = std::lower_bound(tensors_by_name_.begin(), tensors_by_name_.end(), name,
                                        [&](size_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
    if (found == tensors_by_name_.end() || tensors_[*found].name != name) return nullptr;
    return &tensors_[*found];
}

std::string GgufFile::describe(const GgufEntry& entry, size_t width) const {
    if (entry.type != GgufType::array) return value_text(entry.type, entry.data, width);
    std::string text = std::to_string(entry.count) + " x " + std::string(to_string(entry.element_type)) + ": [";
    const std::byte* value = entry.data;
    for (uint64_t i = 0; i < entry.count; ++i) {
        if (i > 0) text += ", ";
        if (text.size() >= width) return text + "...]";
        text += value_text(entry.element_type, value, 24);
        value = next_value(entry.element_type, value);
    }
    return text + "]";
}

void GgufFile::fail(const std::string& what) const {
    throw Error(ErrorKind::model, path_ + ": " + what);
}

void GgufFile::fail_missing(std::string_view key) const {
    fail("key '" + std::string(key) + "' is missing from the metadata");
}

void GgufFile::fail_type(const GgufEntry& entry, std::string_view expected) const {
    std::string found(to_string(entry.type));
    if (entry.type == GgufType::array) found = "array of " + std::string(to_string(entry.element_type));
    fail("key '" + std::string(entry.key) + "' has the type " + found + "; expected " + std::string(expected));
}

const GgufEntry* GgufFile::find_array(std::string_view key) const {
    const GgufEntry* entry = find(key);
    if (entry && entry->type != GgufType::array) fail_type(*entry, "an array");
    return entry;
}

// `index` is below entry.count.
template <class T>
T GgufFile::integer(const GgufEntry& entry, uint64_t index) const {
    const std::byte* data = entry.data + index * value_bytes(entry.element_type);
    const auto narrow = [&](auto value) {
        if (!std::in_range<T>(value)) {
            fail("key '" + std::string(entry.key) + "' holds " + std::to_string(value) + ", which does not fit " +
                 (std::is_signed_v<T> ? "a signed" : "an unsigned") + " integer of " + std::to_string(8 * sizeof(T)) +
                 " bits");
        }
        return static_cast<T>(value);
    };
    switch (entry.element_type) {
        case GgufType::u8: return narrow(load<uint8_t>(data));
        case GgufType::i8: return narrow(load<int8_t>(data));
        case GgufType::u16: return narrow(load<uint16_t>(data));
        case GgufType::i16: return narrow(load<int16_t>(data));
        case GgufType::u32: return narrow(load<uint32_t>(data));
        case GgufType::i32: return narrow(load<int32_t>(data));
        case GgufType::u64: return narrow(load<uint64_t>(data));
        case GgufType::i64: return narrow(load<int64_t>(data));
        default: fail_type(entry, entry.type == GgufType::array ? "an array of integers" : "an integer");
    }
}

float GgufFile::real(const GgufEntry& entry, uint64_t index) const {
    const std::byte* data = entry.data + index * value_bytes(entry.element_type);
    if (entry.element_type == GgufType::f32) return load<float>(data);
    if (entry.element_type == GgufType::f64) return static_cast<float>(load<double>(data));
    fail_type(entry, entry.type == GgufType::array ? "an array of f32" : "f32");
}

template <class T>
std::optional<T> GgufFile::find_integer(std::string_view key) const {
    const GgufEntry* entry = find(key);
    if (!entry) return std::nullopt;
    if (entry->type == GgufType::array) fail_type(*entry, "an integer");
    return integer<T>(*entry, 0);
}

template <class T>
std::optional<std::vector<T>> GgufFile::find_integer_array(std::string_view key) const {
    const GgufEntry* entry = find_array(key);
    if (!entry) return std::nullopt;
    if (entry->element_type == GgufType::string) fail_type(*entry, "an array of integers");
    std::vector<T> values;
    values.reserve(entry->count);
    for (uint64_t i = 0; i < entry->count; ++i) values.push_back(integer<T>(*entry, i));
    return values;
}

std::optional<uint32_t> GgufFile::find_u32(std::string_view key) const {
    return find_integer<uint32_t>(key);
}
std::optional<int32_t> GgufFile::find_i32(std::string_view key) const {
    return find_integer<int32_t>(key);
}
std::optional<uint64_t> GgufFile::find_u64(std::string_view key) const {
    return find_integer<uint64_t>(key);
}

std::optional<std::vector<uint32_t>> GgufFile::find_u32_array(std::string_view key) const {
    return find_integer_array<uint32_t>(key);
}

std::optional<std::vector<int32_t>> GgufFile::find_i32_array(std::string_view key) const {
    return find_integer_array<int32_t>(key);
}

std::optional<float> GgufFile::find_f32(std::string_view key) const {
    const GgufEntry* entry = find(key);
    if (!entry) return std::nullopt;
    if (entry->type == GgufType::array) fail_type(*entry, "f32");
    return real(*entry, 0);
}

std::optional<std::vector<float>> GgufFile::find_f32_array(std::string_view key) const {
    const GgufEntry* entry = find_array(key);
    if (!entry) return std::nullopt;
    if (entry->element_type != GgufType::f32 && entry->element_type != GgufType::f64) {
        fail_type(*entry, "an array of f32");
    }
    std::vector<float> values;
    values.reserve(entry->count);
    for (uint64_t i = 0; i < entry->count; ++i) values.push_back(real(*entry, i));
    return values;
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
    const GgufEntry* entry = find(key);
    if (!entry) return std::nullopt;
    if (entry->type != GgufType::boolean) fail_type(*entry, "bool");
    return load<uint8_t>(entry->data) != 0;
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
    const GgufEntry* entry = find(key);
    if (!entry) return std::nullopt;
    if (entry->type != GgufType::string) fail_type(*entry, "string");
    return string_at(entry->data);
}

std::optional<std::vector<std::string_view>> GgufFile::find_string_array(std::string_view key) const {
    const GgufEntry* entry = find_array(key);
    if (!entry) return std::nullopt;
    if (entry->element_type != GgufType::string) fail_type(*entry, "an array of strings");
    std::vector<std::string_view> values;
    values.reserve(entry->count);
    const std::byte* value = entry->data;
    for (uint64_t i = 0; i < entry->count; ++i) {
        values.push_back(string_at(value));
        value = next_value(GgufType::string, value);
    }
    return values;
}

}  // namespace kvplane

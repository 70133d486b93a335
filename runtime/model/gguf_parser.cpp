// Reads and checks the header of a GGUF file. Layout (little-endian, packed):
//   "GGUF" · u32 version · u64 tensors · u64 entries
//   entries × { string key · u32 type · value }          string: u64 length, bytes
//   tensors × { string name · u32 dims · u64 × dims · u32 type · u64 offset }
//   padding to general.alignment · data; tensor i lies at data start + offset
// Each rule below has been a vulnerability in some reader of this format.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "model/gguf.h"
#include "model/gguf_value.h"
#include "model/utf8.h"

namespace kvplane {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place and is little-endian");

namespace {

constexpr uint64_t max_key_bytes = uint64_t{1} << 20;
constexpr uint64_t max_name_bytes = 63;
constexpr uint64_t max_string_bytes = uint64_t{1} << 30;
constexpr uint64_t max_array_elements = uint64_t{1} << 30;
constexpr uint64_t min_alignment = 8, default_alignment = 32, max_alignment = uint64_t{1} << 20;
constexpr uint64_t smallest_entry = 8 + 1 + 4 + 1;       // a key of one byte, a value of one byte
constexpr uint64_t smallest_tensor = 8 + 1 + 4 + 4 + 8;  // a name of one byte, no dims
constexpr uint64_t signed_limit = uint64_t{1} << 63;     // other readers take these fields as signed

std::string number(uint64_t value) {
    return std::to_string(value);
}

std::string quoted(std::string_view text) {
    return "'" + printable(text, 80) + "'";
}

}  // namespace

class GgufParser {
public:
    GgufParser(GgufFile& file, std::span<const std::byte> bytes) : file_(file), bytes_(bytes) {}

    void parse() {
        file_.file_bytes_ = bytes_.size();
        const auto [tensor_count, entry_count] = read_head();
        for (uint64_t i = 0; i < entry_count; ++i) read_entry(i);
        index_entries();
        refuse_split_file();
        const uint64_t alignment = read_alignment();
        std::vector<uint64_t> offsets;
        for (uint64_t i = 0; i < tensor_count; ++i) offsets.push_back(read_tensor(i, alignment));
        index_tensors();
        place_tensors(offsets, alignment);
    }

private:
    struct Counts {
        uint64_t tensors, entries;
    };

    [[noreturn]] void fail_at(uint64_t offset, const std::string& what) const {
        file_.fail("offset " + number(offset) + ": " + what);
    }

    uint64_t remaining() const { return bytes_.size() - position_; }

    const std::byte* take(uint64_t count, const std::string& what) {
        if (count > remaining()) {
            fail_at(position_, what + " needs " + number(count) + " bytes, but the file ends after " +
                                   number(remaining()) + "; is it cut off?");
        }
        const std::byte* start = bytes_.data() + position_;
        position_ += count;
        return start;
    }

    template <class T>
    T read(const std::string& what) {
        return load<T>(take(sizeof(T), what));
    }

    std::string_view read_string(const std::string& what, uint64_t limit) {
        const uint64_t start = position_;
        const uint64_t length = read<uint64_t>("the length of " + what);
        if (length > limit) {
            fail_at(start, what + " is " + number(length) + " bytes long; at most " + number(limit) + " are allowed");
        }
        return {reinterpret_cast<const char*>(take(length, what)), static_cast<size_t>(length)};
    }

    Counts read_head() {
        if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
            fail_at(0, "not a GGUF file: it does not start with the bytes 'GGUF'");
        }
        position_ = 4;
        const uint32_t version = read<uint32_t>("the version");
        if ((version & 0xffff) == 0 && version != 0) {
            fail_at(4, "a big-endian GGUF file; convert it to little-endian first");
        }
        if (version != 2 && version != 3) {
            fail_at(4, "GGUF version " + number(version) + " is not supported; versions 2 and 3 are");
        }
        file_.version_ = version;
        const uint64_t tensors = read<uint64_t>("the tensor count");
        const uint64_t entries = read<uint64_t>("the metadata count");
        check_count(8, "tensors", tensors, smallest_tensor);
        check_count(16, "metadata entries", entries, smallest_entry);
        file_.tensors_.reserve(tensors);
        file_.entries_.reserve(entries);
        return {tensors, entries};
    }

    void check_count(uint64_t offset, const std::string& what, uint64_t count, uint64_t smallest) const {
        if (count > remaining() / smallest) {
            fail_at(offset, "the file claims " + number(count) + " " + what + ", but its remaining " +
                                number(remaining()) + " bytes hold at most " + number(remaining() / smallest));
        }
    }

    GgufType read_type(const std::string& what) {
        const uint64_t start = position_;
        const uint32_t id = read<uint32_t>("the type of " + what);
        if (id > static_cast<uint32_t>(GgufType::f64)) {
            fail_at(start, what + " has the unknown value type " + number(id) + "; 0 to 12 are known");
        }
        return static_cast<GgufType>(id);
    }

    void read_entry(uint64_t index) {
        const uint64_t start = position_;
        const std::string_view key = read_string("the key of metadata entry " + number(index), max_key_bytes);
        if (key.empty()) fail_at(start, "metadata entry " + number(index) + " has an empty key");
        if (key.find('\0') != key.npos || !is_utf8(key)) {
            fail_at(start,
                    "the key " + quoted(key) + " of metadata entry " + number(index) + " is not valid UTF-8 text");
        }
        const std::string what = "key " + quoted(key);
        const GgufType type = read_type(what);
        GgufEntry entry{key, type, type, 1, nullptr};
        if (type == GgufType::array) read_array_head(entry, what);
        entry.data = bytes_.data() + position_;
        skip_elements(entry, what);
        file_.entries_.push_back(entry);
    }

    void read_array_head(GgufEntry& entry, const std::string& what) {
        entry.element_type = read_type(what);
        if (entry.element_type == GgufType::array) {
            fail_at(position_ - 4, what + " is an array of arrays, which is not supported");
        }
        const uint64_t start = position_;
        entry.count = read<uint64_t>("the array length of " + what);
        if (entry.count > max_array_elements) {
            fail_at(start, what + " claims " + number(entry.count) + " array elements; at most " +
                               number(max_array_elements) + " are allowed");
        }
        const uint64_t size = entry.element_type == GgufType::string ? 8 : value_bytes(entry.element_type);
        if (entry.count > remaining() / size) {
            fail_at(start, what + " claims " + number(entry.count) + " array elements, but the remaining " +
                               number(remaining()) + " bytes hold at most " + number(remaining() / size));
        }
    }

    void skip_elements(const GgufEntry& entry, const std::string& what) {
        if (entry.element_type == GgufType::string) {
            for (uint64_t i = 0; i < entry.count; ++i) read_string("the text of " + what, max_string_bytes);
            return;
        }
        // A count was bounded by the remaining bytes above, so the product cannot overflow.
        const std::byte* values = take(entry.count * value_bytes(entry.element_type), "the value of " + what);
        if (entry.element_type != GgufType::boolean) return;
        const std::byte* bad = std::find_if(values, values + entry.count, [](std::byte b) { return b > std::byte{1}; });
        if (bad != values + entry.count) {
            fail_at(static_cast<uint64_t>(bad - bytes_.data()),
                    what + " holds the bool " + number(std::to_integer<uint64_t>(*bad)) + "; only 0 and 1 are allowed");
        }
    }

    // Positions of `items` in the order of their names.
    template <class Items, class Name>
    std::vector<size_t> sorted_index(const Items& items, Name name, const std::string& what) const {
        std::vector<size_t> index(items.size());
        std::iota(index.begin(), index.end(), size_t{0});
        std::sort(index.begin(), index.end(), [&](size_t a, size_t b) { return name(items[a]) < name(items[b]); });
        for (size_t i = 1; i < index.size(); ++i) {
            if (name(items[index[i - 1]]) == name(items[index[i]])) {
                file_.fail(what + " " + quoted(name(items[index[i]])) + " occurs more than once");
            }
        }
        return index;
    }

    void index_entries() {
        file_.entries_by_key_ = sorted_index(
            file_.entries_, [](const GgufEntry& entry) { return entry.key; }, "key");
    }

    void index_tensors() {
        file_.tensors_by_name_ = sorted_index(
            file_.tensors_, [](const TensorView& tensor) { return tensor.name; }, "tensor");
    }

    void refuse_split_file() const {
        const uint32_t parts = file_.find_u32("split.count").value_or(1);
        if (parts > 1) {
            file_.fail("this is one of " + number(parts) +
                       " parts of a split model, which is not supported yet; merge the parts into one file first");
        }
    }

    uint64_t read_alignment() const {
        const uint64_t alignment = file_.find_u64("general.alignment").value_or(default_alignment);
        if (!std::has_single_bit(alignment) || alignment < min_alignment || alignment > max_alignment) {
            file_.fail("key 'general.alignment' is " + number(alignment) + "; it must be a power of two from " +
                       number(min_alignment) + " to " + number(max_alignment));
        }
        return alignment;
    }

    // Returns the tensor's offset from the start of the data.
    uint64_t read_tensor(uint64_t index, uint64_t alignment) {
        const uint64_t start = position_;
        const std::string ordinal = "tensor " + number(index);
        TensorView tensor{};
        tensor.name = read_string("the name of " + ordinal, max_name_bytes);
        if (tensor.name.empty()) fail_at(start, ordinal + " has an empty name");
        if (tensor.name.find('\0') != tensor.name.npos || !is_utf8(tensor.name)) {
            fail_at(start, "the name " + quoted(tensor.name) + " of " + ordinal + " is not valid UTF-8 text");
        }
        const std::string what = "tensor " + quoted(tensor.name);
        const uint64_t elements = read_shape(tensor, what);
        tensor.type = read_tensor_type(what);
        const TensorTypeInfo& info = tensor_type_info(tensor.type);
        if (tensor.shape[0] % info.block_elements != 0) {
            file_.fail(what + " has rows of " + number(tensor.shape[0]) + " values, no whole number of blocks of " +
                       std::string(info.name) + " (" + number(info.block_elements) + " values)");
        }
        const auto bytes = tensor_bytes(tensor.type, elements);
        const auto padded = bytes ? checked_round_up(*bytes, alignment) : std::nullopt;
        const auto next = padded ? checked_add(next_offset_, *padded) : std::nullopt;
        if (!next) file_.fail(what + " of shape " + shape_text(tensor) + ": its size in bytes overflows 64 bits");
        tensor.bytes = *bytes;
        const uint64_t offset = read<uint64_t>("the offset of " + what);
        if (offset % alignment != 0) {
            file_.fail(what + " has the offset " + number(offset) + ", no multiple of the alignment " +
                       number(alignment));
        }
        if (offset != next_offset_) {  // makes overlaps and holes impossible
            file_.fail(what + " has the offset " + number(offset) + "; after the tensors before it, " +
                       number(next_offset_) + " was expected");
        }
        next_offset_ = *next;
        file_.tensors_.push_back(tensor);
        return offset;
    }

    uint64_t read_shape(TensorView& tensor, const std::string& what) {
        const uint64_t start = position_;
        tensor.dims = read<uint32_t>("the dimension count of " + what);
        if (tensor.dims > tensor.shape.size()) {
            fail_at(start, what + " has " + number(tensor.dims) + " dimensions; at most 4 are allowed");
        }
        tensor.shape.fill(1);
        uint64_t elements = 1;
        for (uint32_t i = 0; i < tensor.dims; ++i) {
            tensor.shape[i] = read<uint64_t>("dimension " + number(i) + " of " + what);
            if (tensor.shape[i] == 0) fail_at(position_ - 8, "dimension " + number(i) + " of " + what + " is 0");
            const auto product = checked_multiply(elements, tensor.shape[i]);
            if (!product || *product >= signed_limit) {
                fail_at(position_ - 8, what + " has more than 2^63 elements: dimension " + number(i) + " is " +
                                           number(tensor.shape[i]));
            }
            elements = *product;
        }
        return elements;
    }

    TensorType read_tensor_type(const std::string& what) {
        const uint64_t start = position_;
        const uint32_t id = read<uint32_t>("the type of " + what);
        if (const TensorTypeInfo* info = find_tensor_type(id)) return info->type;
        const std::string_view withdrawn = withdrawn_tensor_type(id);
        if (withdrawn.empty()) fail_at(start, what + " has the unknown tensor type " + number(id));
        fail_at(start, what + " has the tensor type " + std::string(withdrawn) + " (" + number(id) +
                           "), which GGUF has withdrawn; convert the model again");
    }

    void place_tensors(const std::vector<uint64_t>& offsets, uint64_t alignment) {
        if (offsets.empty()) return;
        const auto data_start = checked_round_up(position_, alignment);
        for (size_t i = 0; i < offsets.size(); ++i) {
            TensorView& tensor = file_.tensors_[i];
            const auto begin = data_start ? checked_add(*data_start, offsets[i]) : std::nullopt;
            const auto end = begin ? checked_add(*begin, tensor.bytes) : std::nullopt;
            if (!end || *end > bytes_.size()) {
                const TensorView& last = file_.tensors_.back();
                const auto expected = data_start ? checked_add(*data_start, offsets.back()) : std::nullopt;
                const auto total = expected ? checked_add(*expected, last.bytes) : std::nullopt;
                file_.fail("the file has " + number(bytes_.size()) + " bytes where its tensors need " +
                           (total ? number(*total) : "more than 2^64") + ": tensor " + quoted(tensor.name) +
                           " lies beyond the end; is the file cut off?");
            }
            tensor.data = bytes_.data() + *begin;
        }
    }

    GgufFile& file_;
    std::span<const std::byte> bytes_;
    uint64_t position_ = 0;
    uint64_t next_offset_ = 0;  // padded sum of the tensors read so far
};

GgufFile GgufFile::open(const std::string& path) {
    MappedFile map(path);
    GgufFile file = parse(map.bytes(), path);
    file.map_ = std::move(map);
    return file;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
    GgufFile file;
    file.path_ = std::move(name);
    GgufParser(file, bytes).parse();
    return file;
}

}  // namespace kvplane

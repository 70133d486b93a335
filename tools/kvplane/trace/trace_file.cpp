#include "trace/trace_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace kvplane::tool {

namespace {

constexpr std::array<char, 8> magic = {'K', 'V', 'T', 'R', 'A', 'C', 'E', '1'};
enum Kind : uint32_t { header_kind = 1, sample_kind = 2, step_kind = 3, end_kind = 4 };
constexpr uint32_t most_bytes = 1u << 28;  // of a record
constexpr uint32_t most_heads = 1u << 16, most_tokens = 1u << 30;

template <class Number>
void put(std::string& out, Number number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void put_varint(std::string& out, uint32_t number) {
    for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
    out += static_cast<char>(number);
}

void put_text(std::string& out, const std::string& text) {
    put(out, static_cast<uint32_t>(text.size()));
    out += text;
}

uint16_t to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t half) {
    return std::bit_cast<float>(uint32_t{half} << 16);
}

uint64_t checksum(uint32_t kind, const std::string& payload) {
    std::string head;
    put(head, kind);
    put(head, static_cast<uint32_t>(payload.size()));
    return XXH3_64bits_withSeed(payload.data(), payload.size(), XXH3_64bits(head.data(), head.size()));
}

// Takes a payload apart; what is not there makes it fail.
class Payload {
public:
    explicit Payload(const std::string& bytes) : bytes_(bytes) {}

    template <class Number>
    Number take() {
        Number number;
        std::memcpy(&number, take_bytes(sizeof(number)), sizeof(number));
        return number;
    }
    uint32_t take_varint() {
        uint64_t number = 0;
        for (int shift = 0; shift < 35; shift += 7) {
            const auto byte = take<uint8_t>();
            number |= uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) {
                if (number > UINT32_MAX) break;
                return static_cast<uint32_t>(number);
            }
        }
        throw Error(ErrorKind::usage, "holds a number that is too long");
    }
    std::string take_text() {
        const auto size = take<uint32_t>();
        return std::string(take_bytes(size), size);
    }
    size_t left() const { return bytes_.size() - at_; }
    void expect_end() const {
        if (left() != 0) throw Error(ErrorKind::usage, "has a record that is too long");
    }

private:
    const char* take_bytes(size_t n) {
        if (n > left()) throw Error(ErrorKind::usage, "has a record that is too short");
        at_ += n;
        return bytes_.data() + at_ - n;
    }

    const std::string& bytes_;
    size_t at_ = 0;
};

TraceHeader read_header(const std::string& payload) {
    Payload in(payload);
    TraceHeader header;
    header.model = in.take<uint64_t>();
    for (uint32_t* number : {&header.layers, &header.heads, &header.kv_heads, &header.page_tokens, &header.group_tokens,
                             &header.row_bytes, &header.prompt_tokens}) {
        *number = in.take<uint32_t>();
    }
    header.scores = in.take<uint8_t>() != 0;
    header.strategy = in.take_text();
    header.settings = in.take_text();
    in.expect_end();
    const bool sound = header.layers > 0 && header.layers <= most_heads && header.kv_heads > 0 &&
                       header.heads <= most_heads && header.heads >= header.kv_heads &&
                       header.heads % header.kv_heads == 0 && header.page_tokens > 0 &&
                       header.page_tokens <= most_heads && header.group_tokens > 0 && header.group_tokens <= most_heads;
    if (!sound) throw Error(ErrorKind::usage, "has a header that describes no model");
    return header;
}

TraceSample read_sample(const std::string& payload, const TraceHeader& header) {
    Payload in(payload);
    TraceSample sample;
    sample.step = in.take<uint64_t>();
    sample.layer = in.take<uint32_t>();
    sample.position = in.take<uint32_t>();
    if (sample.layer >= header.layers || sample.position >= most_tokens) {
        throw Error(ErrorKind::usage, "names a layer or a position that cannot be");
    }
    sample.visible.resize(header.kv_heads);
    for (std::vector<int32_t>& tokens : sample.visible) {
        const uint32_t n = in.take_varint();
        if (n > sample.position + 1 || n > in.left()) throw Error(ErrorKind::usage, "lists more tokens than there are");
        uint64_t next = 0;
        for (uint32_t i = 0; i < n; ++i) {
            next += in.take_varint();
            if (next > sample.position) throw Error(ErrorKind::usage, "lists a token that was not there yet");
            tokens.push_back(static_cast<int32_t>(next++));
        }
    }
    if (header.scores) {
        const size_t n = size_t{header.heads} * (sample.position + 1);
        if (in.left() != 2 * n) throw Error(ErrorKind::usage, "has a record whose weights are not as many as it says");
        sample.weights.resize(n);
        for (float& weight : sample.weights) {
            weight = from_bf16(in.take<uint16_t>());
            if (!(weight >= 0 && weight <= 1)) throw Error(ErrorKind::usage, "has a weight outside of 0 to 1");
        }
    }
    in.expect_end();
    return sample;
}

TraceStep read_step(const std::string& payload) {
    Payload in(payload);
    TraceStep step;
    step.step = in.take<uint64_t>();
    step.position = in.take<uint32_t>();
    step.bytes_to_device = in.take<uint64_t>();
    step.bytes_to_host = in.take<uint64_t>();
    step.rows_evicted = in.take<uint64_t>();
    in.expect_end();
    return step;
}

}  // namespace

TraceWriter::TraceWriter(const std::string& file, const TraceHeader& header)
    : file_(file), out_(file, std::ios::binary | std::ios::trunc), scores_(header.scores) {
    if (!out_) throw Error(ErrorKind::usage, file + ": cannot be written; is its folder there?");
    out_.write(magic.data(), magic.size());
    std::string payload;
    put(payload, header.model);
    for (uint32_t number : {header.layers, header.heads, header.kv_heads, header.page_tokens, header.group_tokens,
                            header.row_bytes, header.prompt_tokens}) {
        put(payload, number);
    }
    put(payload, static_cast<uint8_t>(header.scores));
    put_text(payload, header.strategy);
    put_text(payload, header.settings);
    record(header_kind, payload);
}

void TraceWriter::add(const TraceSample& sample) {
    std::string payload;
    put(payload, sample.step);
    put(payload, sample.layer);
    put(payload, sample.position);
    for (const std::vector<int32_t>& tokens : sample.visible) {
        put_varint(payload, static_cast<uint32_t>(tokens.size()));
        int32_t next = 0;
        for (int32_t token : tokens) {
            put_varint(payload, static_cast<uint32_t>(token - next));
            next = token + 1;
        }
    }
    if (scores_) {
        for (float weight : sample.weights) put(payload, to_bf16(weight));
    }
    record(sample_kind, payload);
}

void TraceWriter::add(const TraceStep& step) {
    std::string payload;
    put(payload, step.step);
    put(payload, step.position);
    put(payload, step.bytes_to_device);
    put(payload, step.bytes_to_host);
    put(payload, step.rows_evicted);
    record(step_kind, payload);
}

void TraceWriter::finish() {
    std::string payload;
    put(payload, n_records_ - 1);
    record(end_kind, payload);
    out_.close();
    if (!out_) throw Error(ErrorKind::runtime, file_ + ": cannot be written; is the disk full?");
}

void TraceWriter::record(uint32_t kind, const std::string& payload) {
    if (payload.size() > most_bytes) throw Error(ErrorKind::usage, "a look at one layer is too large to be recorded");
    std::string head, tail;
    put(head, kind);
    put(head, static_cast<uint32_t>(payload.size()));
    put(tail, checksum(kind, payload));
    out_ << head << payload << tail;
    ++n_records_;
    if (!out_) throw Error(ErrorKind::runtime, file_ + ": cannot be written; is the disk full?");
}

void read_trace(const std::string& file, const std::function<TraceVisitor(const TraceHeader&)>& on_header) {
    std::ifstream in(file, std::ios::binary);
    if (!in) throw Error(ErrorKind::usage, file + ": cannot be opened; is the path right?");
    try {
        std::array<char, magic.size()> start{};
        in.read(start.data(), start.size());
        if (!in || start != magic)
            throw Error(ErrorKind::usage, "is no trace of this version; make one with kvplane trace record");
        TraceHeader header;
        TraceVisitor visitor;
        std::string payload;
        for (uint64_t number = 0;; ++number) {
            uint32_t kind = 0, size = 0;
            uint64_t sum = 0;
            in.read(reinterpret_cast<char*>(&kind), sizeof(kind));
            in.read(reinterpret_cast<char*>(&size), sizeof(size));
            if (!in) throw Error(ErrorKind::usage, "is cut off");
            if (size > most_bytes) throw Error(ErrorKind::usage, "has a record of " + std::to_string(size) + " bytes");
            payload.resize(size);
            in.read(payload.data(), size);
            in.read(reinterpret_cast<char*>(&sum), sizeof(sum));
            if (!in) throw Error(ErrorKind::usage, "is cut off");
            if (sum != checksum(kind, payload)) throw Error(ErrorKind::usage, "is damaged: a checksum does not fit");
            if ((number == 0) != (kind == header_kind)) throw Error(ErrorKind::usage, "does not begin with one header");
            if (kind == header_kind) {
                header = read_header(payload);
                visitor = on_header(header);
            } else if (kind == sample_kind) {
                visitor.on_sample(read_sample(payload, header));
            } else if (kind == step_kind) {
                visitor.on_step(read_step(payload));
            } else if (kind == end_kind) {
                Payload end(payload);
                if (end.take<uint64_t>() != number - 1) throw Error(ErrorKind::usage, "lacks records");
                end.expect_end();
                if (in.peek() != std::ifstream::traits_type::eof())
                    throw Error(ErrorKind::usage, "goes on after its end");
                return;
            } else {
                throw Error(ErrorKind::usage, "has a record of the unknown kind " + std::to_string(kind));
            }
        }
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::usage) throw;
        throw Error(ErrorKind::usage, file + ": " + error.what());
    }
}

}  // namespace kvplane::tool

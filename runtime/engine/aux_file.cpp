#include "engine/aux_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <fstream>

#include "base/error.h"

namespace kvplane {

namespace {

constexpr char magic[8] = {'K', 'V', 'P', 'A', 'U', 'X', '1', '\0'};
constexpr uint64_t max_bytes = uint64_t{1} << 30;  // 128 layers x 128 KV heads x 128 x 128 x 4 bytes
constexpr uint32_t max_id_bytes = 256;

template <class Number>
void put(std::ostream& out, Number number) {
    out.write(reinterpret_cast<const char*>(&number), sizeof(number));
}

template <class Number>
bool get(std::istream& in, Number& number) {
    return static_cast<bool>(in.read(reinterpret_cast<char*>(&number), sizeof(number)));
}

}  // namespace

void write_aux_file(const std::filesystem::path& path, const std::string& strategy, uint64_t fingerprint,
                    std::span<const std::byte> data) {
    std::filesystem::path temporary = path;
    temporary += ".partial";
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(magic, sizeof(magic));
    put(out, fingerprint);
    put(out, static_cast<uint32_t>(strategy.size()));
    out.write(strategy.data(), static_cast<std::streamsize>(strategy.size()));
    put(out, static_cast<uint64_t>(data.size()));
    put(out, static_cast<uint64_t>(XXH3_64bits(data.data(), data.size())));
    out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(temporary, path, error);
    if (!out || error) {
        std::filesystem::remove(temporary, error);
        throw Error(ErrorKind::runtime, "cannot write " + path.string() + ": is the folder there and writable?");
    }
}

std::vector<std::byte> read_aux_file(const std::filesystem::path& path, const std::string& strategy,
                                     std::optional<uint64_t> fingerprint) {
    const auto refuse = [&](const std::string& reason) {
        return Error(ErrorKind::config,
                     "kv.aux: " + path.string() + ": " + reason + "; make it with `kvplane calibrate kv`");
    };
    std::ifstream in(path, std::ios::binary);
    if (!in) throw refuse("cannot be opened");
    char head[sizeof(magic)];
    if (!in.read(head, sizeof(head)) || std::memcmp(head, magic, sizeof(magic)) != 0) {
        throw refuse("is no calibration file");
    }
    uint64_t of_model = 0, n_bytes = 0, checksum = 0;
    uint32_t n_id = 0;
    if (!get(in, of_model) || !get(in, n_id) || n_id > max_id_bytes) throw refuse("is damaged");
    std::string id(n_id, '\0');
    if (!in.read(id.data(), n_id) || !get(in, n_bytes) || !get(in, checksum)) throw refuse("is cut off");
    if (id != strategy) throw refuse("was made for KV strategy " + id + ", not " + strategy);
    if (fingerprint && of_model != *fingerprint) throw refuse("was made for another model");
    const auto data_begin = in.tellg();
    in.seekg(0, std::ios::end);
    const auto there = static_cast<uint64_t>(in.tellg() - data_begin);
    if (n_bytes > max_bytes || there != n_bytes) {
        throw refuse("holds " + std::to_string(there) + " bytes of data, its head says " + std::to_string(n_bytes));
    }
    in.seekg(data_begin);
    std::vector<std::byte> data(n_bytes);
    if (!in.read(reinterpret_cast<char*>(data.data()), static_cast<std::streamsize>(n_bytes)))
        throw refuse("cannot be read");
    if (XXH3_64bits(data.data(), data.size()) != checksum) throw refuse("is damaged: its checksum does not fit");
    return data;
}

}  // namespace kvplane

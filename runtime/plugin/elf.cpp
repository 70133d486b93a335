#include "plugin/elf.h"

#include <elf.h>

#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/error.h"

namespace kvplane {

namespace {

#if defined(__x86_64__)
constexpr uint16_t host_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t host_machine = EM_AARCH64;
#elif defined(__riscv)
constexpr uint16_t host_machine = EM_RISCV;
#else
#error "name this machine's ELF number here"
#endif

// A note section is a few hundred bytes; a library with more of them than this is not worth reading.
constexpr uint64_t max_note_bytes = uint64_t(1) << 20;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorKind::plugin, reason);
}

std::string machine_name(uint16_t machine) {
    switch (machine) {
        case EM_386: return "i386";
        case EM_ARM: return "arm";
        case EM_X86_64: return "x86-64";
        case EM_AARCH64: return "aarch64";
        case EM_RISCV: return "riscv";
        case EM_PPC64: return "ppc64";
        case EM_S390: return "s390x";
        default: return "ELF machine " + std::to_string(machine);
    }
}

template <class Struct>
Struct read_struct(const PluginFile& file, uint64_t offset) {
    Struct value;
    file.read(offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
}

Elf64_Ehdr read_header(const PluginFile& file) {
    unsigned char ident[EI_NIDENT] = {};
    if (file.size() < sizeof ident) refuse("not an ELF file");
    file.read(0, std::as_writable_bytes(std::span(ident)));
    if (std::memcmp(ident, ELFMAG, SELFMAG) != 0) refuse("not an ELF file");
    if (ident[EI_CLASS] != ELFCLASS64) refuse("a 32-bit library; this program is 64-bit");
    if (ident[EI_DATA] != ELFDATA2LSB) refuse("a big-endian library; this machine is little-endian");

    const auto header = read_struct<Elf64_Ehdr>(file, 0);
    if (header.e_machine != host_machine) {
        refuse("built for " + machine_name(header.e_machine) + ", this machine is " + machine_name(host_machine));
    }
    if (header.e_type != ET_DYN) refuse("an ELF file, but not a shared library");
    if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) refuse("damaged ELF program headers");
    if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr)) refuse("damaged ELF section headers");
    return header;
}

// Header i of a table. The offset may be anything; the sum may not wrap.
template <class Entry>
Entry read_entry(const PluginFile& file, uint64_t table, uint64_t index) {
    const auto offset = checked_add(table, index * sizeof(Entry));
    if (!offset) refuse("the file is truncated: a header table lies outside of it");
    return read_struct<Entry>(file, *offset);
}

// Walks the notes in [offset, offset + n_bytes).
std::optional<std::string> find_note(const PluginFile& file, uint64_t offset, uint64_t n_bytes, uint64_t alignment,
                                     std::string_view owner, uint32_t type, uint64_t max_bytes) {
    if (n_bytes > max_note_bytes) return std::nullopt;
    std::vector<std::byte> bytes(n_bytes);
    file.read(offset, bytes);
    // gABI: the parts of a note are aligned to 4 bytes, to 8 in segments that say so.
    const uint64_t step = alignment == 8 ? 8 : 4;

    uint64_t at = 0;
    while (n_bytes - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        std::memcpy(&note, bytes.data() + at, sizeof note);
        // 32-bit sizes and offsets under 2^20: these sums cannot wrap.
        const uint64_t name = at + sizeof note;
        const uint64_t content = *checked_round_up(name + note.n_namesz, step);
        const uint64_t end = *checked_round_up(content + note.n_descsz, step);
        if (content + note.n_descsz > n_bytes) refuse("damaged ELF note: it is longer than its section");

        const std::string_view found(reinterpret_cast<const char*>(bytes.data()) + name, note.n_namesz);
        if (note.n_type == type && found == std::string(owner) + '\0') {
            if (note.n_descsz > max_bytes) {
                refuse("its note has " + std::to_string(note.n_descsz) + " bytes, at most " +
                       std::to_string(max_bytes) + " are allowed");
            }
            return std::string(reinterpret_cast<const char*>(bytes.data()) + content, note.n_descsz);
        }
        if (end >= n_bytes) break;
        at = end;
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::string> read_elf_note(const PluginFile& file, std::string_view owner, uint32_t type,
                                         uint64_t max_bytes) {
    const Elf64_Ehdr header = read_header(file);
    std::optional<std::string> note;
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
        const auto segment = read_entry<Elf64_Phdr>(file, header.e_phoff, i);
        if (segment.p_type == PT_LOAD) {
            const auto end = checked_add(segment.p_offset, segment.p_filesz);
            if (!end || *end > file.size()) refuse("the file is truncated: a segment ends beyond it");
        } else if (segment.p_type == PT_NOTE && !note) {
            note = find_note(file, segment.p_offset, segment.p_filesz, segment.p_align, owner, type, max_bytes);
        }
    }
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
        const auto section = read_entry<Elf64_Shdr>(file, header.e_shoff, i);
        if (section.sh_type != SHT_NOTE || note) continue;
        note = find_note(file, section.sh_offset, section.sh_size, section.sh_addralign, owner, type, max_bytes);
    }
    return note;
}

}  // namespace kvplane

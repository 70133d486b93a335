// The note reader on files that were damaged on purpose. Offsets are those of the ELF64 header and program header
// (System V gABI): e_type 16, e_machine 18, e_phoff 32, e_shoff 40, e_phentsize 54, e_phnum 56, e_shnum 60.
#include "plugin/elf.h"

#include <gtest/gtest.h>
#include <kvplane/manifest.h>

#include <cstring>

#include "base/error.h"
#include "support/temp_folder.h"

namespace kvplane::test {

namespace {

std::optional<std::string> note_of(const std::string& bytes) {
    const TempFolder folder;
    write_file(folder.path() / "it.so", bytes);
    return read_elf_note(PluginFile(folder.path() / "it.so"), KVP_MANIFEST_OWNER, KVP_MANIFEST_TYPE,
                         KVP_MANIFEST_MAX_BYTES);
}

std::string reason_for(const std::string& bytes) {
    return message_of([&] { note_of(bytes); });
}

template <class Number>
std::string patched(std::string bytes, size_t offset, Number value) {
    bytes.replace(offset, sizeof value, reinterpret_cast<const char*>(&value), sizeof value);
    return bytes;
}

const std::string& sound() {
    static const std::string bytes = read_file(test_plugin("sound"));
    return bytes;
}

}  // namespace

TEST(Elf, reads_the_note_of_a_library) {
    const auto note = note_of(sound());
    ASSERT_TRUE(note);
    EXPECT_EQ(note->substr(0, 40), "{\"kinds\":[\"codec\"],\"id\":\"sound\",\"version");
}

TEST(Elf, finds_the_note_by_the_program_headers_when_the_sections_were_stripped) {
    const auto note = note_of(patched(patched(sound(), 40, uint64_t(0)), 60, uint16_t(0)));
    ASSERT_TRUE(note);
    EXPECT_NE(note->find("\"sound\""), std::string::npos);
}

TEST(Elf, finds_the_note_by_the_sections_when_no_segment_has_it) {
    std::string bytes = sound();
    uint64_t table;
    uint16_t count;
    std::memcpy(&table, bytes.data() + 32, sizeof table);
    std::memcpy(&count, bytes.data() + 56, sizeof count);
    const uint32_t note_segment = 4, null_segment = 0;
    int n_notes = 0;
    for (uint16_t i = 0; i < count; ++i) {
        char* const type = bytes.data() + table + i * 56u;
        if (std::memcmp(type, &note_segment, sizeof note_segment) != 0) continue;
        std::memcpy(type, &null_segment, sizeof null_segment);
        ++n_notes;
    }
    ASSERT_GT(n_notes, 0);
    EXPECT_TRUE(note_of(bytes));
}

TEST(Elf, answers_nothing_for_a_library_without_the_note) {
    EXPECT_FALSE(note_of(read_file(test_plugin("no_manifest"))));
}

TEST(Elf, refuses_what_is_no_elf_file) {
    EXPECT_EQ(reason_for(""), "not an ELF file");
    EXPECT_EQ(reason_for("\x7f"
                         "ELF"),
              "not an ELF file");
    EXPECT_EQ(reason_for("#!/bin/sh\nexit 0 # long enough to hold an ELF header, if it were one"), "not an ELF file");
}

TEST(Elf, refuses_a_library_of_another_class_byte_order_or_machine) {
    EXPECT_EQ(reason_for(patched(sound(), 4, uint8_t(1))), "a 32-bit library; this program is 64-bit");
    EXPECT_EQ(reason_for(patched(sound(), 5, uint8_t(2))), "a big-endian library; this machine is little-endian");
    const std::string reason = reason_for(patched(sound(), 18, uint16_t(21)));
    EXPECT_TRUE(reason.starts_with("built for ppc64, this machine is ")) << reason;
}

TEST(Elf, refuses_an_object_file) {
    EXPECT_EQ(reason_for(patched(sound(), 16, uint16_t(1))), "an ELF file, but not a shared library");
}

TEST(Elf, refuses_a_file_that_is_cut_off_anywhere) {
    const std::string& whole = sound();
    for (size_t n = 64; n < whole.size(); n += 61) {
        const std::string reason = reason_for(whole.substr(0, n));
        EXPECT_TRUE(reason.starts_with("the file is truncated")) << n << ": " << reason;
    }
}

TEST(Elf, refuses_header_tables_outside_of_the_file) {
    for (const uint64_t offset : {uint64_t(1) << 40, UINT64_MAX - 8, uint64_t(1) << 63}) {
        EXPECT_TRUE(reason_for(patched(sound(), 32, offset)).starts_with("the file is truncated"));
        EXPECT_TRUE(reason_for(patched(sound(), 40, offset)).starts_with("the file is truncated"));
    }
    EXPECT_EQ(reason_for(patched(sound(), 54, uint16_t(7))), "damaged ELF program headers");
}

TEST(Elf, refuses_a_note_that_is_longer_than_its_section_or_than_allowed) {
    // The note: sizes of owner and content, type, "kvplane\0".
    std::string bytes = sound();
    const size_t owner = bytes.find(std::string("\x01\0\0\0kvplane\0", 12));
    ASSERT_NE(owner, std::string::npos);
    EXPECT_EQ(reason_for(patched(bytes, owner - 4, UINT32_MAX)), "damaged ELF note: it is longer than its section");
    EXPECT_EQ(reason_for(patched(bytes, owner - 8, UINT32_MAX)), "damaged ELF note: it is longer than its section");
    const TempFolder folder;
    write_file(folder.path() / "it.so", bytes);
    const std::string reason =
        message_of([&] { read_elf_note(PluginFile(folder.path() / "it.so"), KVP_MANIFEST_OWNER, 1, 16); });
    EXPECT_TRUE(reason.ends_with("bytes, at most 16 are allowed")) << reason;
}

// Any byte may be wrong: the reader answers or refuses, and reads nothing outside (the sanitizers watch).
TEST(Elf, survives_every_single_byte_being_wrong) {
    const TempFolder folder;
    const std::string small = sound().substr(0, 1024);
    size_t refused = 0;
    for (size_t i = 0; i < small.size(); ++i) {
        std::string bytes = sound();
        bytes[i] = static_cast<char>(~bytes[i]);
        write_file(folder.path() / "it.so", bytes);
        try {
            read_elf_note(PluginFile(folder.path() / "it.so"), KVP_MANIFEST_OWNER, 1, KVP_MANIFEST_MAX_BYTES);
        } catch (const Error&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, 16u);
}

}  // namespace kvplane::test

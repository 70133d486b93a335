#include "plugin/manifest.h"

#include <kvplane/manifest.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plugin/elf.h"

namespace kvplane {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& reason) {
    throw Error(ErrorKind::plugin, "its manifest " + reason);
}

// Ids and kinds appear in TOML keys, file names and messages.
bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    });
}

std::string text_of(const json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) refuse(std::string("has no \"") + key + "\"");
    if (!found->is_string()) refuse(std::string("has a \"") + key + "\" that is no string");
    return found->get<std::string>();
}

std::vector<std::string> list_of(const json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return {};
    const auto is_text = [](const json& item) {
        return item.is_string() && !item.get_ref<const std::string&>().empty();
    };
    if (!found->is_array() || !std::ranges::all_of(*found, is_text)) {
        refuse(std::string("has a \"") + key + "\" that is no list of strings");
    }
    return found->get<std::vector<std::string>>();
}

// "1.0"
void parse_abi(const std::string& text, Manifest& manifest) {
    const char* const end = text.data() + text.size();
    const auto major = std::from_chars(text.data(), end, manifest.abi_major);
    if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.') {
        const auto minor = std::from_chars(major.ptr + 1, end, manifest.abi_minor);
        if (minor.ec == std::errc() && minor.ptr == end) return;
    }
    refuse("has an \"abi\" of \"" + text + "\"; it reads MAJOR.MINOR, as \"1.0\"");
}

}  // namespace

bool Manifest::serves(std::string_view kind) const {
    return kind.empty() || std::ranges::find(kinds, kind) != kinds.end();
}

Manifest parse_manifest(std::string_view text) {
    json object;
    try {
        object = json::parse(text);
    } catch (const json::exception& error) {
        // "[json.exception.parse_error.101] parse error at line 1, …"
        const std::string what = error.what();
        const size_t prefix = what.find("] ");
        refuse("is not valid JSON: " + (prefix == std::string::npos ? what : what.substr(prefix + 2)));
    }
    if (!object.is_object()) refuse("is not a JSON object");

    Manifest manifest;
    manifest.id = text_of(object, "id");
    if (!is_name(manifest.id)) refuse("has an \"id\" that is not of a-z, 0-9, '_', '-', '.' (at most 64)");
    manifest.kinds = list_of(object, "kinds");
    if (manifest.kinds.empty()) refuse("has no \"kinds\"");
    if (!std::ranges::all_of(manifest.kinds, is_name)) refuse("has \"kinds\" that are not of a-z, 0-9, '_', '-', '.'");
    manifest.version = text_of(object, "version");
    parse_abi(text_of(object, "abi"), manifest);
    manifest.cpu = list_of(object, "cpu");
    manifest.drivers = list_of(object, "drivers");
    manifest.gpu = list_of(object, "gpu");
    if (object.contains("sanitizer")) manifest.sanitizer = text_of(object, "sanitizer");
    return manifest;
}

Manifest read_manifest(const PluginFile& file) {
    auto note = read_elf_note(file, KVP_MANIFEST_OWNER, KVP_MANIFEST_TYPE, KVP_MANIFEST_MAX_BYTES);
    if (!note) {
        throw Error(ErrorKind::plugin,
                    "a shared library, but no kvplane plugin: it has no manifest note (KVP_MANIFEST)");
    }
    note->resize(std::min(note->size(), note->find('\0')));
    return parse_manifest(*note);
}

}  // namespace kvplane

#include "config/toml_file.h"

#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "config/toml_guard.h"

namespace kvplane {

namespace {

constexpr uintmax_t largest_file = 1 << 20;

class Reader {
public:
    Reader(std::string_view text, const std::string& file_name) : file_name_(file_name) {
        while (true) {
            const auto end = text.find('\n');
            std::string_view line = text.substr(0, end);
            if (line.ends_with('\r')) line.remove_suffix(1);
            lines_.emplace_back(line);
            if (end == std::string_view::npos) break;
            text.remove_prefix(end + 1);
        }
    }

    void read_table(const toml::table& table, const std::string& prefix) {
        for (const auto& [key, node] : table) {
            RawEntry entry;
            entry.key = prefix.empty() ? key_part(key.str()) : prefix + "." + key_part(key.str());
            entry.value = raw_value(node);
            entry.key_place = place(key.source());
            entry.value_place = place(node.source());
            const std::string path = entry.key;
            entries.push_back(std::move(entry));
            if (const auto* below = node.as_table()) read_table(*below, path);
        }
    }

    Place place(const toml::source_region& region) const {
        Place result;
        result.origin = {OriginKind::file, file_name_, region.begin.line, region.begin.column};
        result.column = region.begin.column;
        if (region.begin.line >= 1 && region.begin.line <= lines_.size()) result.text = lines_[region.begin.line - 1];
        if (region.end.line == region.begin.line && region.end.column > region.begin.column) {
            result.length = region.end.column - region.begin.column;
        }
        return result;
    }

    std::vector<RawEntry> entries;

private:
    static std::string key_part(std::string_view part) {
        const bool bare = !part.empty() && part.find_first_not_of(
                                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                               "0123456789_-") == std::string_view::npos;
        return bare ? std::string(part) : '"' + std::string(part) + '"';
    }

    static RawValue raw_value(const toml::node& node) {
        RawValue value;
        if (const auto* flag = node.as_boolean()) {
            value.kind = RawKind::boolean;
            value.boolean = flag->get();
        } else if (const auto* integer = node.as_integer()) {
            value.kind = RawKind::integer;
            value.integer = integer->get();
        } else if (const auto* real = node.as_floating_point()) {
            value.kind = RawKind::real;
            value.real = real->get();
        } else if (const auto* text = node.as_string()) {
            value.kind = RawKind::string;
            value.text = text->get();
        } else if (const auto* list = node.as_array()) {
            value.kind = RawKind::list;
            for (const auto& item : *list) value.list.push_back(raw_value(item));
        } else {
            value.kind = node.is_table() ? RawKind::table : RawKind::date_or_time;
        }
        return value;
    }

    const std::string& file_name_;
    std::vector<std::string> lines_;
};

}  // namespace

std::vector<RawEntry> read_toml(std::string_view text, const std::string& file_name, Problems& problems) {
    Reader reader(text, file_name);
    if (const auto found = find_forbidden_character(text)) {
        const Place place = reader.place({{found->line, found->column}, {found->line, found->column + 1}, {}});
        problems.add({place,
                      found->is_control ? "not TOML: a control character"
                                        : "not TOML: a character that is not ASCII, outside of quotes and comments",
                      "", ""});
        return {};
    }
    try {
        reader.read_table(toml::parse(text), "");
    } catch (const toml::parse_error& error) {
        problems.add({reader.place(error.source()), "not TOML: " + std::string(error.description()), "", ""});
        return {};
    }
    return std::move(reader.entries);
}

std::string read_pipeline_file(const std::filesystem::path& file) {
    const auto refuse = [&](const std::string& reason) {
        throw Error(ErrorKind::config, file.string() + ": " + reason + "; give the path of a pipeline, a TOML file");
    };
    std::error_code failure;
    const auto status = std::filesystem::status(file, failure);
    if (!std::filesystem::exists(status)) refuse("there is no such file");
    if (!std::filesystem::is_regular_file(status)) refuse("this is not a file");
    const auto size = std::filesystem::file_size(file, failure);
    if (failure) refuse(failure.message());
    if (size > largest_file) refuse("this is too large for a pipeline (over 1 MiB)");
    std::ifstream stream(file, std::ios::binary);
    if (!stream) refuse(std::string("cannot be opened: ") + std::strerror(errno));
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

}  // namespace kvplane

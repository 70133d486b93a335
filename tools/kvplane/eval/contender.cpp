#include "eval/contender.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "config/toml_file.h"

namespace kvplane::tool {

namespace {

std::string stem(const std::string& file) {
    return file.empty() ? "defaults" : std::filesystem::path(file).stem().string();
}

// "codec=int4" for "kv.codec=int4".
std::string short_override(const std::string& text) {
    const size_t equals = text.find('=');
    const size_t dot = text.rfind('.', equals);
    return dot == std::string::npos ? text : text.substr(dot + 1);
}

void fill_names(Contender& contender) {
    if (contender.series.empty()) contender.series = stem(contender.file);
    if (!contender.label.empty()) return;
    contender.label = stem(contender.file);
    for (const std::string& text : contender.overrides) contender.label += ", " + short_override(text);
}

// Reads one key of a contender's table; what would be right is returned, empty when it was.
std::string take(Contender& contender, const std::string& key, const RawValue& value, const std::string& folder) {
    if (key == "set") {
        const bool texts = std::all_of(value.list.begin(), value.list.end(), [](const RawValue& item) {
            return item.kind == RawKind::string && item.text.find('=') != std::string::npos;
        });
        if (value.kind != RawKind::list || !texts) return "a list of \"KEY=VALUE\"";
        for (const RawValue& item : value.list) contender.overrides.push_back(item.text);
        return "";
    }
    if (value.kind != RawKind::string || value.text.empty()) return "a text in quotes";
    if (key == "label") contender.label = value.text;
    if (key == "series") contender.series = value.text;
    if (key == "pipeline") contender.file = (std::filesystem::path(folder) / value.text).lexically_normal().string();
    return "";
}

}  // namespace

Contender parse_contender(const std::string& text) {
    Contender made;
    std::vector<std::string> pieces;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t comma = std::min(text.find(',', begin), text.size());
        const std::string piece = text.substr(begin, comma - begin);
        if (pieces.size() > 1 && piece.find('=') == std::string::npos) {
            pieces.back() += "," + piece;
        } else {
            pieces.push_back(piece);
        }
        begin = comma + 1;
    }
    made.file = pieces.front();
    for (size_t i = 1; i < pieces.size(); ++i) {
        const std::string& piece = pieces[i];
        const size_t equals = piece.find('=');
        if (equals == std::string::npos || equals == 0) {
            throw Error(ErrorKind::usage,
                        "-p " + text + ": \"" + piece + "\" is no KEY=VALUE; give FILE,KEY=VALUE,KEY=VALUE");
        }
        const std::string key = piece.substr(0, equals);
        if (key == "label") {
            made.label = piece.substr(equals + 1);
        } else if (key == "series") {
            made.series = piece.substr(equals + 1);
        } else {
            made.overrides.push_back(piece);
        }
    }
    fill_names(made);
    return made;
}

std::vector<Contender> read_matrix(const std::string& file) {
    Problems problems;
    std::vector<RawEntry> entries = read_toml(read_pipeline_file(file), file, problems);
    problems.throw_if_any();
    const auto line = [](const RawEntry& entry) { return entry.key_place.origin.line; };
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const RawEntry& a, const RawEntry& b) { return line(a) < line(b); });
    const std::string folder = std::filesystem::path(file).parent_path().string();
    std::vector<Contender> made;
    std::map<std::string, size_t> number;  // of a table's name
    for (const RawEntry& entry : entries) {
        const size_t dot = entry.key.starts_with('"') ? entry.key.find("\".") : entry.key.find('.');
        if (dot == std::string::npos) {
            if (entry.value.kind != RawKind::table) {
                problems.add({entry.key_place, "a matrix file is made of tables, one a pipeline", "[NAME]", ""});
                continue;
            }
            number[entry.key] = made.size();
            Contender contender;
            contender.label = entry.key.starts_with('"') ? entry.key.substr(1, entry.key.size() - 2) : entry.key;
            made.push_back(std::move(contender));
            continue;
        }
        const size_t after = entry.key.starts_with('"') ? dot + 1 : dot;
        const std::string key = entry.key.substr(after + 1);
        if (key != "label" && key != "series" && key != "pipeline" && key != "set") {
            problems.add({entry.key_place, "unknown key " + key, "label, series, pipeline, set", ""});
            continue;
        }
        const std::string wanted = take(made[number.at(entry.key.substr(0, after))], key, entry.value, folder);
        if (!wanted.empty()) problems.add({entry.value_place, "wrong value of " + key, wanted, ""});
    }
    problems.throw_if_any();
    if (made.empty()) throw Error(ErrorKind::config, file + ": names no pipeline; add a table [NAME] for each");
    for (Contender& contender : made) fill_names(contender);
    return made;
}

void check_labels(const std::vector<Contender>& contenders) {
    std::set<std::string> seen;
    for (const Contender& contender : contenders) {
        if (seen.insert(contender.label).second) continue;
        throw Error(ErrorKind::usage,
                    "two pipelines go by the name \"" + contender.label + "\"; give them labels: -p FILE,label=NAME");
    }
}

}  // namespace kvplane::tool

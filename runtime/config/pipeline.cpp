#include "config/pipeline.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/error.h"
#include "config/convert.h"
#include "config/suggest.h"
#include "config/toml_file.h"

namespace kvplane {

namespace {

constexpr std::array<std::string_view, 4> plugin_slots = {"device", "kv", "codec", "transfer"};
constexpr std::string_view environment_prefix = "KVPLANE_";

// Read by others than the pipeline: the plugin loader, the cpu device, tools/demo-model, the tests.
constexpr std::array<std::string_view, 4> other_variables = {"KVPLANE_PLUGIN_PATH", "KVPLANE_CPU", "KVPLANE_CACHE",
                                                             "KVPLANE_DEMO_MODEL"};

// The table of a plugin that a key stands in, "kv.infinigen" of "kv.infinigen.alpha"; empty when it is in none.
std::string plugin_table(const RawEntry& entry) {
    for (const auto slot : plugin_slots) {
        if (!entry.key.starts_with(std::string(slot) + ".")) continue;
        const auto dot = entry.key.find('.', slot.size() + 1);
        if (dot != std::string::npos) return entry.key.substr(0, dot);
        if (entry.value.kind == RawKind::table) return entry.key;
    }
    return {};
}

// The keys that name a slot's plugin and what to take instead; empty: none.
std::string plugin_key(std::string_view slot) {
    return slot == "codec" ? "kv.codec" : std::string(slot) + ".plugin";
}
std::string fallback_key(std::string_view slot) {
    return slot == "codec" ? "" : std::string(slot) + ".fallback";
}

bool is_library_path(std::string_view name) {
    return name.find('/') != std::string_view::npos || name.ends_with(".so");
}

std::string parent_of(std::string_view key) {
    const auto dot = key.rfind('.');
    return std::string(key.substr(0, dot == std::string_view::npos ? 0 : dot));
}

std::vector<std::string> tables_of(const Schema& schema) {
    std::set<std::string> tables;
    for (const auto& key : schema.keys()) {
        for (std::string table = parent_of(key); !table.empty(); table = parent_of(table)) tables.insert(table);
    }
    return {tables.begin(), tables.end()};
}

// "NAME=VALUE" of the environment or of --set, with the places of both sides.
RawEntry plain_entry(const Origin& origin, std::string key, const std::string& name, const std::string& value) {
    RawEntry entry;
    entry.key = std::move(key);
    entry.value.text = value;
    entry.key_place = {origin, name + "=" + value, 1, static_cast<uint32_t>(name.size())};
    entry.value_place = {origin, name + "=" + value, static_cast<uint32_t>(name.size() + 2),
                         static_cast<uint32_t>(value.size())};
    return entry;
}

std::vector<RawEntry> override_entries(const std::vector<std::string>& overrides, Problems& problems) {
    std::vector<RawEntry> entries;
    for (const auto& text : overrides) {
        const Origin origin = {OriginKind::override_option, text};
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0) {
            problems.add({{origin, text, 1, static_cast<uint32_t>(text.size())}, "no key or no '='", "KEY=VALUE", ""});
            continue;
        }
        const std::string key = text.substr(0, equals);
        entries.push_back(plain_entry(origin, key, key, text.substr(equals + 1)));
    }
    return entries;
}

template <class Value>
const Value& typed(const OptionValue& value, std::string_view key) {
    const auto* found = std::get_if<Value>(&value);
    if (found == nullptr) throw std::logic_error("option of another type: " + std::string(key));
    return *found;
}

}  // namespace

std::map<std::string, std::string> PipelineRequest::process_environment() {
    std::map<std::string, std::string> variables;
    for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
        const std::string_view text = *variable;
        const auto equals = text.find('=');
        if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return variables;
}

Pipeline Pipeline::load(const PipelineRequest& request) {
    return parse(request.file.empty() ? "" : read_pipeline_file(request.file), request);
}

Pipeline Pipeline::parse(std::string_view text, const PipelineRequest& request) {
    Pipeline pipeline;
    pipeline.folder_ = request.file.parent_path();
    for (const auto& [name, value] : request.environment) {
        // An empty variable is as good as none: many shells cannot tell them apart.
        if (name.starts_with(environment_prefix) && !value.empty()) pipeline.environment_.emplace(name, value);
    }
    Problems problems;
    pipeline.apply_core(read_toml(text, request.file.string(), problems), problems);
    pipeline.apply_core(pipeline.take_environment(), problems);
    pipeline.apply_core(override_entries(request.overrides, problems), problems);
    problems.throw_if_any();
    return pipeline;
}

void Pipeline::apply_core(const std::vector<RawEntry>& entries, Problems& problems) {
    std::string refused;  // the table whose entries need no message of their own
    for (const auto& given : entries) {
        if (!refused.empty() && given.key.starts_with(refused + ".")) continue;
        const RawEntry entry = renamed(given);
        const bool is_table = entry.value.kind == RawKind::table;
        if (schema_.find(entry.key) != nullptr) {
            set(entry, problems);
            if (is_table) refused = entry.key;
        } else if (schema_.has_table(entry.key)) {
            if (!is_table) {
                problems.add({entry.value_place, entry.key + " is a table, it cannot be " + to_string(entry.value),
                              "[" + entry.key + "] with " + comma_list(schema_.keys_in(entry.key)), ""});
            }
        } else if (!plugin_table(entry).empty()) {
            plugin_entries_.push_back(entry);
        } else {
            report_unknown(entry, problems);
            refused = entry.key;
        }
    }
}

// A key under its old name, with a warning.
RawEntry Pipeline::renamed(const RawEntry& entry) {
    if (entry.key != "kv.dtype") return entry;
    RawEntry now = entry;
    now.key = "kv.codec";
    warnings_.push_back(to_string(entry.key_place.origin) + ": kv.dtype is now called kv.codec");
    return now;
}

void Pipeline::set(const RawEntry& entry, Problems& problems) {
    const bool from_file = entry.value_place.origin.kind == OriginKind::file;
    auto value = convert(*schema_.find(entry.key), entry, from_file ? folder_ : std::filesystem::path(), problems);
    if (!value) return;
    for (const auto slot : plugin_slots) {
        const std::string table = std::string(slot) + ".";
        if (entry.key == plugin_key(slot)) named_plugins_.insert(table + std::get<std::string>(*value));
        if (entry.key == fallback_key(slot)) {
            for (const auto& name : std::get<std::vector<std::string>>(*value)) named_plugins_.insert(table + name);
        }
    }
    settings_.insert_or_assign(entry.key, Setting{*std::move(value), entry.value_place.origin});
}

// The variables that name a key of the schema, as it is known by now.
std::vector<RawEntry> Pipeline::take_environment() {
    std::vector<RawEntry> entries;
    for (const auto& key : schema_.keys()) {
        const auto found = environment_.find(environment_name(key));
        if (found == environment_.end()) continue;
        entries.push_back(plain_entry({OriginKind::environment, found->first}, key, found->first, found->second));
        environment_.erase(found);
    }
    return entries;
}

void Pipeline::report_unknown(const RawEntry& entry, Problems& problems) const {
    const bool is_table = entry.value.kind == RawKind::table;
    const std::vector<std::string> tables = tables_of(schema_);
    const std::vector<std::string> neighbours =
        is_table ? std::vector<std::string>() : schema_.keys_in(parent_of(entry.key));
    Problem problem;
    problem.place = entry.key_place;
    problem.what = is_table ? "unknown table [" + entry.key + "]" : "unknown key " + entry.key;
    problem.allowed = neighbours.empty() ? "the tables " + comma_list(tables) : comma_list(neighbours);
    problem.nearest = nearest_key(entry.key, is_table ? tables : schema_.keys());
    problems.add(std::move(problem));
}

std::vector<PluginReference> Pipeline::plugins(std::string_view slot) const {
    std::vector<PluginReference> result;
    const auto add = [&](const std::string& name, const Origin& origin) {
        PluginReference reference{name, {}, origin};
        if (is_library_path(name)) {
            const auto base = origin.kind == OriginKind::file ? folder_ : std::filesystem::path();
            reference.path = (base / name).lexically_normal();
        }
        result.push_back(std::move(reference));
    };
    add(text(plugin_key(slot)), origin(plugin_key(slot)));
    const std::string fallback = fallback_key(slot);
    if (fallback.empty()) return result;
    for (const auto& name : list(fallback)) add(name, origin(fallback));
    return result;
}

void Pipeline::declare_plugin(std::string_view slot, std::string_view id, std::vector<OptionSpec> specs) {
    const std::string table = std::string(slot) + "." + std::string(id);
    schema_.add(table, std::move(specs));
    declared_tables_.insert(table);
}

void Pipeline::check_plugins() {
    Problems problems;
    apply_plugins(OriginKind::file, problems);
    for (const auto& entry : take_environment()) set(entry, problems);
    apply_plugins(OriginKind::override_option, problems);
    plugin_entries_.clear();
    problems.throw_if_any();
    warn_of_unmatched_environment();
}

void Pipeline::apply_plugins(OriginKind source, Problems& problems) {
    std::string refused;
    for (const auto& entry : plugin_entries_) {
        if (entry.key_place.origin.kind != source) continue;
        if (!refused.empty() && entry.key.starts_with(refused + ".")) continue;
        const bool is_table = entry.value.kind == RawKind::table;
        if (!declared_tables_.contains(plugin_table(entry))) {
            if (may_stay_unread(entry)) {
                if (!is_table) unread_entries_.push_back(entry);
            } else {
                report_unnamed_plugin(entry, problems);
                refused = plugin_table(entry);
            }
        } else if (schema_.find(entry.key) != nullptr) {
            set(entry, problems);
        } else if (!is_table || (entry.key != plugin_table(entry) && !schema_.has_table(entry.key))) {
            report_unknown(entry, problems);
            refused = entry.key;
        }
    }
}

// Some source names the plugin, but the run did not come to open it: another source took its place, or it is a
// fallback. A library that is named by its path and was not opened may have any id.
bool Pipeline::may_stay_unread(const RawEntry& entry) const {
    const std::string table = plugin_table(entry);
    if (named_plugins_.contains(table)) return true;
    const std::string slot = table.substr(0, table.find('.') + 1);
    const auto paths = std::count_if(named_plugins_.begin(), named_plugins_.end(), [&](const std::string& name) {
        return name.starts_with(slot) && is_library_path(name.substr(slot.size()));
    });
    const auto declared = std::count_if(declared_tables_.begin(), declared_tables_.end(), [&](const std::string& name) {
        return name.starts_with(slot) && !named_plugins_.contains(name);
    });
    return paths > declared;
}

void Pipeline::report_unnamed_plugin(const RawEntry& entry, Problems& problems) const {
    const std::string table = plugin_table(entry);
    const std::string slot = table.substr(0, table.find('.'));
    std::vector<std::string> tables;
    for (const auto& reference : plugins(slot)) {
        if (reference.path.empty()) tables.push_back(slot + "." + reference.name);
    }
    for (const auto& declared : declared_tables_) {
        const bool is_listed = std::find(tables.begin(), tables.end(), declared) != tables.end();
        if (declared.starts_with(slot + ".") && !is_listed) tables.push_back(declared);
    }
    Problem problem;
    problem.place = entry.key_place;
    const std::string key = plugin_key(slot), fallback = fallback_key(slot);
    problem.what = "[" + table + "] is for a plugin that this pipeline does not name (" + key + " = " +
                   to_string(value(key)) +
                   (fallback.empty() ? "" : ", " + fallback + " = " + to_string(value(fallback))) + ")";
    problem.allowed = "options of " + comma_list(tables);
    problem.nearest = nearest(table, tables);
    problems.add(std::move(problem));
}

void Pipeline::warn_of_unmatched_environment() {
    std::vector<std::string> known(other_variables.begin(), other_variables.end());
    for (const auto& key : schema_.keys()) known.push_back(environment_name(key));
    const auto is_unread = [&](const std::string& name) {
        return std::any_of(named_plugins_.begin(), named_plugins_.end(), [&](const std::string& plugin) {
            return !declared_tables_.contains(plugin) && name.starts_with(environment_name(plugin) + "_");
        });
    };
    for (const auto& variable : environment_) {
        const std::string& name = variable.first;
        if (std::find(known.begin(), known.end(), name) != known.end() || is_unread(name)) continue;
        const std::string near = nearest(name, known);
        warnings_.push_back("environment variable " + name + " matches no key of the pipeline and does nothing" +
                            (near.empty() ? "" : "; nearest: " + near));
    }
    environment_.clear();
}

const OptionValue& Pipeline::value(std::string_view key) const {
    const auto found = settings_.find(key);
    if (found != settings_.end()) return found->second.value;
    const OptionSpec* spec = schema_.find(key);
    if (spec == nullptr) throw std::logic_error("no such option: " + std::string(key));
    return spec->default_value;
}

const Origin& Pipeline::origin(std::string_view key) const {
    static const Origin by_default;
    const auto found = settings_.find(key);
    return found == settings_.end() ? by_default : found->second.origin;
}

bool Pipeline::boolean(std::string_view key) const {
    return typed<bool>(value(key), key);
}
int64_t Pipeline::integer(std::string_view key) const {
    return typed<int64_t>(value(key), key);
}
double Pipeline::real(std::string_view key) const {
    return typed<double>(value(key), key);
}
std::optional<uint64_t> Pipeline::size(std::string_view key) const {
    return typed<Size>(value(key), key).bytes;
}
const std::string& Pipeline::text(std::string_view key) const {
    return typed<std::string>(value(key), key);
}
std::filesystem::path Pipeline::path(std::string_view key) const {
    return typed<std::string>(value(key), key);
}
const std::vector<std::string>& Pipeline::list(std::string_view key) const {
    return typed<std::vector<std::string>>(value(key), key);
}

std::vector<ExplainRow> Pipeline::explain() const {
    std::vector<ExplainRow> rows;
    for (const auto& key : schema_.keys()) {
        const OptionSpec& spec = *schema_.find(key);
        rows.push_back({key, to_string(value(key)), to_string(origin(key)), spec.unit, spec.doc});
    }
    for (const auto& entry : unread_entries_) {
        rows.push_back({entry.key, to_string(entry.value), to_string(entry.value_place.origin), "",
                        "not read: its plugin is not in use"});
    }
    return rows;
}

}  // namespace kvplane

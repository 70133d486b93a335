// The pipeline: what a run loads and with which values, put together from (in falling order of precedence) --set,
// the environment, the TOML file, and the schema's defaults.
//
//     Pipeline pipeline = Pipeline::load(request);                  // the core's keys; throws with all problems
//     for (const auto& plugin : pipeline.plugins("kv")) …           // open it; its descriptor gives id and options
//         pipeline.declare_plugin("kv", id, specs);
//     pipeline.check_plugins();                                     // the tables [kv.ID] …; throws likewise
//
// Values that other plugins than the running one would have used (file says kv.plugin = "infinigen", the command line
// --set kv.plugin=dense) stay unread; they are no error, and explain() shows them as unused.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/problem.h"
#include "config/raw_value.h"
#include "config/schema.h"

namespace kvplane {

struct PipelineRequest {
    std::filesystem::path file;                      // empty: no file, defaults alone
    std::vector<std::string> overrides;              // KEY=VALUE; of two for one key the later one wins
    std::map<std::string, std::string> environment;  // names that do not start with KVPLANE_ are not looked at

    // The environment of this process.
    static std::map<std::string, std::string> process_environment();
};

// A plugin as the pipeline names it.
struct PluginReference {
    std::string name;            // as written: an id, or a path
    std::filesystem::path path;  // of the library; empty when `name` is an id
    Origin origin;
};

struct ExplainRow {
    std::string key;
    std::string value;   // as TOML; sizes in bytes
    std::string origin;  // to_string(Origin)
    std::string unit;
    std::string doc;
};

class Pipeline {
public:
    static Pipeline load(const PipelineRequest& request);
    // The same from a text; request.file is the name that messages and relative paths take for it.
    static Pipeline parse(std::string_view text, const PipelineRequest& request);

    // Slots are "device", "kv", "codec", "transfer". First SLOT.plugin, then SLOT.fallback in order; of "codec" kv.codec.
    std::vector<PluginReference> plugins(std::string_view slot) const;

    // Declares [SLOT.ID] with the options of the plugin's descriptor; their paths are below that table.
    void declare_plugin(std::string_view slot, std::string_view id, std::vector<OptionSpec> specs);
    void check_plugins();

    // The key's value; std::logic_error when the key is not declared with that type.
    bool boolean(std::string_view key) const;
    int64_t integer(std::string_view key) const;
    double real(std::string_view key) const;
    std::optional<uint64_t> size(std::string_view key) const;          // empty: auto
    const std::string& text(std::string_view key) const;               // string and choice
    std::filesystem::path path(std::string_view key) const;            // resolved; empty: none
    const std::vector<std::string>& list(std::string_view key) const;  // strings; paths resolved

    const OptionValue& value(std::string_view key) const;
    const Origin& origin(std::string_view key) const;
    const Schema& schema() const { return schema_; }

    // Every declared key in the schema's order, then the values that nobody reads.
    std::vector<ExplainRow> explain() const;

    // What looks like a mistake but stops nothing: environment variables that match no key, old names. Complete after
    // check_plugins().
    const std::vector<std::string>& warnings() const { return warnings_; }

private:
    struct Setting {
        OptionValue value;
        Origin origin;
    };

    Pipeline() : schema_(core_schema()) {}

    // Each takes the entries of one source; sources come in rising order of precedence.
    void apply_core(const std::vector<RawEntry>& entries, Problems& problems);
    void apply_plugins(OriginKind source, Problems& problems);
    RawEntry renamed(const RawEntry& entry);
    void set(const RawEntry& entry, Problems& problems);
    std::vector<RawEntry> take_environment();
    void report_unknown(const RawEntry& entry, Problems& problems) const;
    void report_unnamed_plugin(const RawEntry& entry, Problems& problems) const;
    bool may_stay_unread(const RawEntry& entry) const;
    void warn_of_unmatched_environment();

    Schema schema_;
    std::filesystem::path folder_;                          // of the pipeline file; relative paths in it start here
    std::map<std::string, Setting, std::less<>> settings_;  // what is not at its default
    std::map<std::string, std::string> environment_;        // KVPLANE_* not yet matched with a key
    std::vector<RawEntry> plugin_entries_;                  // of the tables [SLOT.ID], until check_plugins()
    std::vector<RawEntry> unread_entries_;
    std::set<std::string> named_plugins_;    // "SLOT.NAME" of every source, overridden ones as well
    std::set<std::string> declared_tables_;  // "SLOT.ID"
    std::vector<std::string> warnings_;
};

}  // namespace kvplane

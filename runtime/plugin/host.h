// The services that the core gives to one plugin: kvp_host.
#pragma once

#include <kvplane/host.h>

#include <map>
#include <string>

#include "config/schema.h"
#include "observe/log.h"

namespace kvplane {

// Values by key, as a plugin's own table names them: bool, int64_t, double and std::string are what can cross.
using OptionValues = std::map<std::string, OptionValue, std::less<>>;

class PluginHost {
public:
    explicit PluginHost(const std::string& plugin_id);
    PluginHost(const PluginHost&) = delete;
    PluginHost& operator=(const PluginHost&) = delete;

    const kvp_host* table() const { return &table_; }

    // What the plugin will read. Not while the plugin is in use.
    void set_options(OptionValues values) { options_ = std::move(values); }
    const OptionValues& options() const { return options_; }

    // What this plugin said by set_error on this thread since the last call, once.
    std::string take_error();

    Log& log() { return log_; }

private:
    kvp_host table_;
    Log& log_;
    OptionValues options_;
};

// Makes is_stopping true for every plugin; for good, unless a test takes it back.
void set_stopping(bool stopping) noexcept;

}  // namespace kvplane

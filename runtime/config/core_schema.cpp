// The keys of the core. docs and `kvplane config explain` show these lines: one line of text each, no more.
#include "config/schema.h"
#include "observe/log_levels.h"

#include "base/error.h"

namespace kvplane {

namespace {

using Strings = std::vector<std::string>;

constexpr double max_tokens = 1 << 30;

std::string check_power_of_two(const OptionValue& value) {
    const int64_t number = std::get<int64_t>(value);
    return (number & (number - 1)) == 0 ? "" : "a power of two from 4 to 256 (tokens)";
}

std::string check_not_empty(const OptionValue& value) {
    return std::get<std::string>(value).empty() ? "a plugin's id or the path of its library" : "";
}

std::string check_log_levels(const OptionValue& value) {
    try {
        LogLevels::parse(std::get<std::string>(value));
        return "";
    } catch (const Error&) {
        return "a list of LEVEL or COMPONENT=LEVEL, as \"info,memory=debug\"; levels: trace, debug, info, warn, error, "
               "off";
    }
}

OptionSpec plugin_name(std::string path, std::string name, std::string doc) {
    return {.path = std::move(path), .default_value = std::move(name), .doc = std::move(doc), .check = check_not_empty};
}

OptionSpec integer(std::string path, int64_t value, double minimum, double maximum, std::string unit, std::string doc) {
    return {.path = std::move(path),
            .type = OptionType::integer,
            .default_value = value,
            .minimum = minimum,
            .maximum = maximum,
            .unit = std::move(unit),
            .doc = std::move(doc)};
}

OptionSpec real(std::string path, double value, double minimum, double maximum, std::string doc) {
    return {.path = std::move(path),
            .type = OptionType::real,
            .default_value = value,
            .minimum = minimum,
            .maximum = maximum,
            .doc = std::move(doc)};
}

OptionSpec size_or_auto(std::string path, std::string doc) {
    return {.path = std::move(path),
            .type = OptionType::size,
            .default_value = Size{},
            .accepts_auto = true,
            .unit = "bytes",
            .doc = std::move(doc)};
}

OptionSpec choice(std::string path, std::string value, Strings choices, std::string doc) {
    return {.path = std::move(path),
            .type = OptionType::choice,
            .default_value = std::move(value),
            .choices = std::move(choices),
            .doc = std::move(doc)};
}

OptionSpec file(std::string path, std::string doc) {
    return {.path = std::move(path), .type = OptionType::path, .default_value = std::string(), .doc = std::move(doc)};
}

OptionSpec list(std::string path, OptionType type, std::string doc) {
    return {.path = std::move(path), .type = type, .default_value = Strings(), .doc = std::move(doc)};
}

std::vector<OptionSpec> core_options() {
    OptionSpec page_tokens = integer("memory.page_tokens", 64, 4, 256, "tokens", "tokens of a KV page");
    page_tokens.check = check_power_of_two;
    return {
        file("model.path", "the model file"),
        integer("model.context", 0, 0, max_tokens, "tokens", "longest text of a sequence; 0: the model's own"),

        plugin_name("device.plugin", "cpu", "device that computes: a plugin's id or the path of its library"),
        list("device.fallback", OptionType::string_list,
             "devices to take, in order, when device.plugin cannot be loaded"),
        integer("device.threads", 0, 0, 1024, "threads", "threads of the device; 0: all that the process may use"),
        {.path = "device.exact_f32",
         .type = OptionType::boolean,
         .default_value = false,
         .doc = "f32 arithmetic on the dequantised weights instead of int8 activations: slow, for comparisons"},

        plugin_name("kv.plugin", "dense", "KV strategy: a plugin's id or the path of its library"),
        list("kv.fallback", OptionType::string_list, "strategies to take, in order, when kv.plugin cannot be loaded"),
        plugin_name("kv.codec", "f16", "what cached rows are made of: a codec's id or the path of its library"),
        file("kv.aux", "calibration file of the strategy"),
        real("kv.guard.error", 0.0, 0.0, 1e9,
             "a sequence whose attention output is off by more, relative to dense, reads that layer in full; 0: off"),
        integer("kv.guard.every", 16, 1, max_tokens, "steps", "how often kv.guard.error is looked at"),

        plugin_name("transfer.plugin", "memcpy",
                    "mover of bytes between tiers: a plugin's id or the path of its library"),
        list("transfer.fallback", OptionType::string_list,
             "movers to take, in order, when transfer.plugin cannot be loaded"),

        size_or_auto("tiers.device.kv_bytes", "most KV that the device tier holds"),
        size_or_auto("tiers.host.kv_bytes", "most KV that the host tier holds"),
        choice("tiers.host.access", "auto", {"auto", "direct", "copy"},
               "whether the device reads the host tier in place or has rows moved"),

        page_tokens,
        integer("memory.staging_pages", 8, 2, 256, "pages", "pages of the device tier kept for transfers under way"),
        real("memory.resident_share", 0.1, 0.0, 1.0,
             "share of the KV that stays in the device tier after a fetch (LRU)"),
        integer("memory.resident_layers", 2, 0, 4096, "layers", "first layers whose pages get the device tier first"),

        integer("schedule.chunk_tokens", 512, 16, 8192, "tokens", "tokens of a prefill step"),
        integer("schedule.max_sequences", 16, 1, 256, "sequences", "sequences that run at once"),

        real("sample.temperature", 0.0, 0.0, 5.0, "0: always the likeliest token"),
        integer("sample.top_k", 0, 0, max_tokens, "tokens", "sample among the k likeliest tokens; 0: all"),
        real("sample.top_p", 1.0, 0.0, 1.0, "sample among the likeliest tokens that hold this probability; 1: all"),
        real("sample.min_p", 0.0, 0.0, 1.0, "leave out tokens under this share of the best one's probability; 0: none"),
        real("sample.repeat_penalty", 1.0, 0.01, 100.0,
             "divides (multiplies, if negative) the logits of recent tokens; 1: off"),
        real("sample.presence_penalty", 0.0, -100.0, 100.0, "taken off the logit of each recent token once; 0: off"),
        real("sample.frequency_penalty", 0.0, -100.0, 100.0,
             "taken off the logit of each recent token per occurrence; 0: off"),
        integer("sample.repeat_window", 64, 0, max_tokens, "tokens",
                "how many last tokens the penalties look at; 0: none"),
        integer("sample.seed", 0, 0, 9007199254740992.0, "",
                "seed of the sampler; the same seed gives the same text, 0 is a seed like any other"),

        list("plugins.path", OptionType::path_list, "folders searched for plugins before the installed ones"),

        {.path = "log.level",
         .default_value = std::string("warn"),
         .doc = "levels of the log: LEVEL or COMPONENT=LEVEL, with commas",
         .check = check_log_levels},
    };
}

}  // namespace

const Schema& core_schema() {
    static const Schema schema = [] {
        Schema core;
        core.add("", core_options());
        return core;
    }();
    return schema;
}

}  // namespace kvplane

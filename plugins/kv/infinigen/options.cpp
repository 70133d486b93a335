#include "options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace kvplane::infinigen {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double infinite_alpha = 1e9;
constexpr double most_tokens = 1 << 30;
constexpr std::string_view of_preset = "preset";  // a choice that leaves the preset's value; -1 does so for numbers

template <typename Value>
struct Named {
    std::string_view name;
    Value value;
};

constexpr Named<Source> sources[] = {{"auto", Source::automatic},
                                     {"attn_input", Source::attn_input},
                                     {"residual", Source::residual},
                                     {"residual_mid", Source::residual_mid},
                                     {"own_query", Source::own_query}};
constexpr Named<uint32_t> column_modes[] = {{"energy", KVP_COLUMNS_ENERGY},
                                            {"abs_sum", KVP_COLUMNS_ABS_SUM},
                                            {"q", KVP_COLUMNS_Q},
                                            {"union", KVP_COLUMNS_UNION}};
constexpr Named<Skew> skews[] = {{"auto", Skew::automatic}, {"on", Skew::on}, {"off", Skew::off}};
constexpr Named<uint32_t> key_types[] = {
    {"i8", KVP_TYPE_I8}, {"f32", KVP_TYPE_F32}, {"f16", KVP_TYPE_F16}, {"i4", KVP_TYPE_I4}};
constexpr Named<bool> units[] = {{"row", false}, {"group", true}};
constexpr Named<uint32_t> groups[] = {{"best", KVP_GROUP_BEST}, {"mean", KVP_GROUP_MEAN}, {"mass", KVP_GROUP_MASS}};
constexpr Named<uint32_t> count_modes[] = {
    {"mean", 0}, {"per_head", KVP_SELECT_PER_HEAD}, {"shared", KVP_SELECT_SHARED}};
constexpr Named<bool> switches[] = {{"on", true}, {"off", false}};
constexpr Named<PoolPolicy> policies[] = {
    {"counter", PoolPolicy::counter}, {"lru", PoolPolicy::lru}, {"fifo", PoolPolicy::fifo}};

constexpr auto table = kvp::options(
    kvp::option_choice("preset", "default", "default|lean|paper|artifact",
                       "where every option below that is not set takes its value from"),
    kvp::option_choice(
        "source", of_preset, "preset|auto|attn_input|residual|residual_mid|own_query",
        "what the query is guessed from; auto: own_query where tiers are read in place, else residual_mid"),
    kvp::option_choice("columns", of_preset, "preset|energy|abs_sum|q|union",
                       "how the columns of partial keys are picked"),
    kvp::option_f64("ratio", "-1", -1, 1, "share of a head's columns in partial keys; -1: the preset's"),
    kvp::option_choice("skew", of_preset, "preset|auto|on|off",
                       "rotate q and k by the calibration first; auto: when there is one"),
    kvp::option_choice("key_type", of_preset, "preset|i8|f32|f16|i4", "element type of partial keys"),
    kvp::option_f64("alpha", "-1", -1, infinity,
                    "rows whose score is within alpha of the best count; from 1e9 on: all; -1: the preset's"),
    kvp::option_i64("min_tokens", "-1", -1, most_tokens, "fewest rows chosen; -1: the preset's"),
    kvp::option_f64("min_share", "-1", -1, 1, "fewest rows chosen, as a share of the past; -1: the preset's"),
    kvp::option_f64("cap", "-1", -1, 1, "most rows chosen, as a share of the past; -1: the preset's"),
    kvp::option_i64("max_tokens", "-1", -1, most_tokens, "most rows chosen; 0: no limit; -1: the preset's"),
    kvp::option_f64("fixed_share", "-1", -1, 1, "choose this share of the past, whatever the scores; -1: by threshold"),
    kvp::option_i64("fixed_tokens", "-1", -1, most_tokens,
                    "choose this many rows, whatever the scores; -1: by threshold or share"),
    kvp::option_f64(
        "share", "0", 0, 1,
        "share of the past that is read in all, sinks and recent rows counted, whatever the scores; 0: off"),
    kvp::option_choice("unit", "row", "row|group",
                       "what is chosen: single rows, or whole groups, which are what is fetched"),
    kvp::option_i64("look_ahead", "1", 1, 2, "layers between a guess of the query and its use"),
    kvp::option_i64("sinks", "-1", -1, most_tokens, "first rows, always attended; -1: the preset's"),
    kvp::option_i64("recent", "-1", -1, most_tokens, "newest past rows, always attended; -1: the preset's"),
    kvp::option_i64("dense_layers", "-1", -1, 65536, "first layers, which attend to everything; -1: the preset's"),
    kvp::option_choice("group", of_preset, "preset|best|mean|mass",
                       "score of a row over the query heads that share it"),
    kvp::option_choice("counts", of_preset, "preset|mean|per_head|shared",
                       "one count for all KV heads, each its own, or so many for all together"),
    kvp::option_choice("strict", of_preset, "preset|on|off",
                       "count scores above the threshold (on) or at it too (off)"),
    kvp::option_choice("centroids", of_preset, "preset|on|off", "page means stand in for the rows that are not read"),
    kvp::option_f64("page_share", "-1", -1, 1,
                    "share of the pages that rows are looked for in; 1: all; -1: the preset's; needs centroids"),
    kvp::option_i64("min_pages", "-1", -1, most_tokens, "fewest pages that rows are looked for in; -1: the preset's"),
    kvp::option_i64("pool_tokens", "0", 0, most_tokens, "most rows of a sequence's cache; 0: no limit"),
    kvp::option_choice("pool_policy", "counter", "counter|lru|fifo", "which rows leave a full pool"),
    kvp::option_i64("pool_counter_bits", "8", 1, 31, "width of the use counters, which halve when one is full"),
    kvp::option_bool("protect_sinks", "true", "sinks never leave the pool"),
    kvp::option_choice("compat", "none", "none|artifact",
                       "artifact: a pool by lru or counter masks rows as the published evaluator does; none leaves"));
constexpr auto table_pointers = kvp::pointers(table);

Settings preset(std::string_view name) {
    Settings settings;
    if (name == "default") return settings;
    if (name == "lean") {  // few bytes of long texts: 4 bits of all partial keys cost less than 8 of half of them
        settings.key_type = KVP_TYPE_I4;
        settings.ratio = 0.5;
        settings.alpha = 3;
        settings.min_share = 0.015;
        settings.min_pages = 128;
        return settings;
    }
    // The paper; the artifact's speed path differs in the columns, the ratio and the type (infinigen.md 1.7).
    const bool artifact = name == "artifact";
    settings.source = Source::attn_input;
    settings.columns = artifact ? KVP_COLUMNS_Q : KVP_COLUMNS_ABS_SUM;
    settings.ratio = artifact ? 0.2 : 0.3;
    settings.key_type = artifact ? KVP_TYPE_F16 : KVP_TYPE_F32;
    settings.min_tokens = 1;
    settings.min_share = 0;
    settings.max_tokens = 0;
    settings.sinks = 0;
    settings.recent = 0;
    settings.centroids = false;
    settings.page_share = 1;
    return settings;
}

// The core has checked the text against the option's choices, of which only "preset" is not in `names`.
template <typename Value, size_t n>
void choose(const kvp::Host& host, std::string_view key, const Named<Value> (&names)[n], Value& value) {
    const std::string_view text = host.option_str(key);
    for (const auto& named : names) {
        if (named.name == text) value = named.value;
    }
}

void check_sentinel(std::string_view key, bool between) {
    if (!between) return;
    throw kvp::Failure(KVP_ERROR_INVALID, "kv.infinigen." + std::string(key) +
                                              " is negative; give a number from 0 on, or -1 for the preset's value");
}

void choose(const kvp::Host& host, std::string_view key, double& value) {
    const double given = host.option_f64(key);
    check_sentinel(key, given < 0 && given != -1);
    if (given >= 0) value = given;
}

void choose(const kvp::Host& host, std::string_view key, int64_t& value) {
    const int64_t given = host.option_i64(key);
    if (given >= 0) value = given;
}

void check_compat(const kvp::Host& host, const Settings& settings) {
    if (host.option_str("compat") != "artifact") return;
    if (settings.pool.tokens == 0) {
        throw kvp::Failure(
            KVP_ERROR_INVALID,
            "kv.infinigen.compat = \"artifact\" is about rows that leave a full pool, but the cache has no "
            "limit; set pool_tokens, or leave compat out");
    }
    if (settings.centroids) {
        throw kvp::Failure(
            KVP_ERROR_INVALID,
            "kv.infinigen.compat = \"artifact\" hides single rows, and the page means of centroids would "
            "show them; set centroids = \"off\", or preset = \"artifact\"");
    }
}

template <typename Value, size_t n>
std::string_view name_of(const Named<Value> (&names)[n], Value value) {
    for (const auto& named : names) {
        if (named.value == value) return named.name;
    }
    return "";
}

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", value);
    return text;
}

std::string percent(double share) {
    return number(100 * share) + " %";
}

}  // namespace

const std::array<const kvp_option*, 30>& option_pointers = table_pointers;

int64_t Settings::said_count(int64_t n_past) const {
    if (share > 0) {
        const auto read = static_cast<int64_t>(std::floor(share * static_cast<double>(n_past) + 1e-9));
        return std::max<int64_t>(1, read - sinks - recent);
    }
    return fixed_tokens > 0 ? fixed_tokens : -1;
}

int64_t Settings::floor_count(int64_t n_past) const {
    if (const int64_t said = said_count(n_past); said > 0) return said;
    return std::max(min_tokens, static_cast<int64_t>(std::floor(min_share * static_cast<double>(n_past))));
}

int64_t Settings::cap_count(int64_t n_past) const {
    int64_t room = said_count(n_past);
    if (room <= 0) {
        // As the device multiplies, since groups and a head that shares may fill all of the room; otherwise one more makes
        // up for our rounding.
        room = whole_groups || counts == KVP_SELECT_SHARED
                   ? static_cast<int64_t>(std::floor(static_cast<float>(cap) * static_cast<float>(n_past)))
                   : static_cast<int64_t>(std::floor(cap * static_cast<double>(n_past))) + 1;
        if (max_tokens > 0) room = std::min(room, max_tokens);
    }
    return std::min(std::max(room, unit_tokens), std::max<int64_t>(n_past, 1));
}

int64_t Settings::searched_pages(int64_t n_pages) const {
    if (!chooses_pages()) return n_pages;
    const auto share = static_cast<int64_t>(std::ceil(page_share * static_cast<double>(n_pages)));
    return std::min(n_pages, std::max({share, min_pages, int64_t{1}}));
}

uint32_t Settings::chosen_columns(uint32_t head_size) const {
    return std::max(1u, static_cast<uint32_t>(ratio * head_size));
}

uint32_t Settings::stored_columns(uint32_t head_size) const {
    return chosen_columns(head_size) * (columns == KVP_COLUMNS_UNION ? 2 : 1);
}

Settings read_settings(const kvp::Host& host, uint32_t group_tokens) {
    Settings settings = preset(host.option_str("preset"));
    choose(host, "source", sources, settings.source);
    choose(host, "columns", column_modes, settings.columns);
    choose(host, "ratio", settings.ratio);
    choose(host, "skew", skews, settings.skew);
    choose(host, "key_type", key_types, settings.key_type);
    choose(host, "alpha", settings.alpha);
    if (settings.alpha >= infinite_alpha) settings.alpha = infinity;
    choose(host, "min_tokens", settings.min_tokens);
    choose(host, "min_share", settings.min_share);
    choose(host, "cap", settings.cap);
    choose(host, "max_tokens", settings.max_tokens);
    choose(host, "fixed_share", settings.fixed_share);
    choose(host, "fixed_tokens", settings.fixed_tokens);
    settings.share = host.option_f64("share");
    choose(host, "unit", units, settings.whole_groups);
    if (settings.whole_groups) settings.unit_tokens = std::max<int64_t>(group_tokens, 1);
    if (settings.fixed_tokens > 0 && settings.fixed_tokens < settings.unit_tokens) {
        throw kvp::Failure(KVP_ERROR_INVALID, "kv.infinigen.fixed_tokens = " + std::to_string(settings.fixed_tokens) +
                                                  " is less than a group of " + std::to_string(group_tokens) +
                                                  " tokens; raise it, or set unit to \"row\"");
    }
    settings.look_ahead = host.option_i64("look_ahead");
    if (settings.look_ahead > 1 && settings.source == Source::own_query) {
        throw kvp::Failure(KVP_ERROR_INVALID,
                           "kv.infinigen.look_ahead = " + std::to_string(settings.look_ahead) +
                               " is about guesses, and source = \"own_query\" makes none; leave it out, or take "
                               "another source");
    }
    choose(host, "sinks", settings.sinks);
    choose(host, "recent", settings.recent);
    choose(host, "dense_layers", settings.dense_layers);
    choose(host, "group", groups, settings.group_score);
    choose(host, "counts", count_modes, settings.counts);
    choose(host, "strict", switches, settings.strict);
    choose(host, "centroids", switches, settings.centroids);
    choose(host, "page_share", settings.page_share);
    choose(host, "min_pages", settings.min_pages);
    settings.pool.tokens = static_cast<uint64_t>(host.option_i64("pool_tokens"));
    choose(host, "pool_policy", policies, settings.pool.policy);
    settings.pool.counter_bits = static_cast<uint32_t>(host.option_i64("pool_counter_bits"));
    settings.pool.protect_sinks = host.option_bool("protect_sinks");
    settings.pool.masks = host.option_str("compat") == "artifact" && settings.pool.policy != PoolPolicy::fifo;
    check_compat(host, settings);
    const auto forced = static_cast<uint64_t>(settings.sinks + settings.recent);
    if (settings.pool.tokens > 0 && settings.pool.tokens <= forced) {
        throw kvp::Failure(KVP_ERROR_INVALID, "kv.infinigen.pool_tokens = " + std::to_string(settings.pool.tokens) +
                                                  " leaves no room beside " + std::to_string(forced) +
                                                  " sinks and recent rows; raise it, or lower those");
    }
    return settings;
}

std::string summary(const Settings& settings, uint32_t head_size, bool skewed) {
    std::string text = "infinigen: source " + std::string(name_of(sources, settings.source));
    text += ", " + std::string(name_of(column_modes, settings.columns)) + " columns " +
            std::to_string(settings.chosen_columns(head_size)) + " of " + std::to_string(head_size);
    text += ", " + std::string(name_of(key_types, settings.key_type)) + " partial keys";
    text += std::string(", skew ") + (skewed ? "on" : "off");
    if (settings.share > 0) {
        text += ", " + percent(settings.share) + " read in all";
    } else if (settings.fixed_tokens > 0) {
        text += ", fixed " + std::to_string(settings.fixed_tokens) + " rows";
    } else {
        text += settings.fixed_share >= 0 ? ", fixed " + percent(settings.fixed_share)
                                          : ", alpha " + number(settings.alpha);
        text += ", floor max(" + std::to_string(settings.min_tokens) + ", " + percent(settings.min_share) + ")";
        text += ", cap " + percent(settings.cap);
        if (settings.max_tokens > 0) text += " or " + std::to_string(settings.max_tokens);
    }
    if (settings.whole_groups) text += ", whole groups of " + std::to_string(settings.unit_tokens) + " rows";
    if (settings.look_ahead > 1) {  // source = "auto" may have come to own_query
        text += settings.source == Source::own_query
                    ? ", nothing guessed ahead"
                    : ", guessed " + std::to_string(settings.look_ahead) + " layers ahead";
    }
    text += ", sinks " + std::to_string(settings.sinks) + ", recent " + std::to_string(settings.recent);
    if (settings.group_score == KVP_GROUP_MEAN) text += ", mean of the group";
    if (settings.group_score == KVP_GROUP_MASS) text += ", by shares of attention";
    if (settings.counts == KVP_SELECT_PER_HEAD) text += ", counts per head";
    if (settings.counts == KVP_SELECT_SHARED) text += ", counts shared by heads";
    if (!settings.strict) text += ", threshold inclusive";
    if (settings.centroids) text += ", centroids";
    if (settings.chooses_pages()) {
        text += ", rows of max(" + std::to_string(settings.min_pages) + ", " + percent(settings.page_share) + ") pages";
    }
    if (settings.pool.tokens > 0) {
        text += ", pool of " + std::to_string(settings.pool.tokens) + " tokens by " +
                std::string(name_of(policies, settings.pool.policy));
        if (settings.pool.masks) text += " as published: a row a step is masked, none leaves";
    }
    return text;
}

}  // namespace kvplane::infinigen

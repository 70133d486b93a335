// What the property test goes through: strategies with their options, codecs, and places of rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvplane::test {

using Settings = std::vector<std::string>;

// What the strategy does to rows; it decides what can be compared.
enum class Rows {
    read,      // by their places
    selected,  // by their scores: a near tie may go the other way
    replaced,  // in a pool: who leaves depends on the steps that rows came in
    dropped,   // by their places, and gone in whole pages when they are not
    chunked,   // the same, but what a prompt's rows see depends on its chunks
    evicted,   // single rows, by their scores
};

struct CodecCase {
    const char* name;
    double tolerance;  // what another order of sums may do: now and then a value gets the next code
    uint32_t least_page;
    // Share of texts in which some value got another code, all others being as close as with f32. An error of 1e-7 takes a value
    // over the border of two codes that are 1e-2 apart in one case of 1e5, and a text has 1e4 values; i8 rows of a device that
    // knows them meet queries and weights of 16 bits, whose errors are larger. Limits are up to twice what four seeds had.
    double most_recoded;
    bool is_plain = false;  // every device reads it
};

struct StrategyCase {
    const char* name;
    Settings settings;
    Rows rows;
    // Rows that leave one by one need a codec of rows, which moves them as they are (codec_test.cpp). Whole pages go with any.
    bool is_refused(const CodecCase& codec, bool device_knows_it) const {
        const bool is_known = device_knows_it || codec.is_plain;
        return (rows == Rows::evicted && !is_known) ||
               ((rows == Rows::evicted || rows == Rows::replaced) && codec.least_page > 4);
    }
};

struct Place {
    const char* name;
    bool in_place;
    int device_pages;  // 0: all
};

inline const StrategyCase strategies[] = {
    {"dense", {}, Rows::read},
    {"full_offload", {"kv.plugin=full-offload"}, Rows::read},
    {"window", {"kv.plugin=window", "kv.window.tokens=20", "kv.window.sinks=3"}, Rows::dropped},
    {"streaming_llm",
     {"kv.plugin=window", "kv.window.tokens=20", "kv.window.sinks=3", "kv.window.positions=cache"},
     Rows::dropped},
    {"h2o", {"kv.plugin=h2o", "kv.h2o.tokens=20", "kv.h2o.interval=3"}, Rows::evicted},
    {"snapkv", {"kv.plugin=snapkv", "kv.snapkv.tokens=16", "kv.snapkv.window=6"}, Rows::evicted},
    {"pyramidkv", {"kv.plugin=pyramidkv", "kv.pyramidkv.tokens=16", "kv.pyramidkv.window=6"}, Rows::evicted},
    {"quest",
     {"kv.plugin=quest", "kv.quest.tokens=16", "kv.quest.min_pages=1", "kv.quest.page_tokens=4"},
     Rows::selected},
    {"infinigen_ahead",
     {"kv.plugin=infinigen", "kv.infinigen.source=residual_mid", "kv.infinigen.recent=4", "kv.infinigen.min_tokens=4"},
     Rows::selected},
    {"infinigen_own_query",
     {"kv.plugin=infinigen", "kv.infinigen.source=own_query", "kv.infinigen.recent=4", "kv.infinigen.min_tokens=4"},
     Rows::selected},
    {"infinigen_pool",
     {"kv.plugin=infinigen", "kv.infinigen.source=own_query", "kv.infinigen.recent=4", "kv.infinigen.min_tokens=4",
      "kv.infinigen.pool_policy=counter", "kv.infinigen.pool_tokens=48"},
     Rows::replaced},
};
// Options of these strategies; all codecs and places have been met above, so with f32 where memory is tightest.
inline const StrategyCase variants[] = {
    {"window_by_chunks",
     {"kv.plugin=window", "kv.window.tokens=20", "kv.window.sinks=5", "kv.window.prompt=window"},
     Rows::chunked},
    {"streaming_llm_by_chunks",
     {"kv.plugin=window", "kv.window.tokens=17", "kv.window.positions=cache", "kv.window.prompt=window"},
     Rows::chunked},
    {"streaming_llm_share",
     {"kv.plugin=window", "kv.window.share=0.3", "kv.window.sinks=2", "kv.window.positions=cache"},
     Rows::dropped},
    {"h2o_flexgen", {"kv.plugin=h2o", "kv.h2o.tokens=20", "kv.h2o.form=flexgen"}, Rows::evicted},
    {"h2o_count", {"kv.plugin=h2o", "kv.h2o.share=0.4", "kv.h2o.normalize=count"}, Rows::evicted},
    {"snapkv_again",
     {"kv.plugin=snapkv", "kv.snapkv.tokens=16", "kv.snapkv.window=6", "kv.snapkv.again=8", "kv.snapkv.pooling=max"},
     Rows::evicted},
    {"quest_mean",
     {"kv.plugin=quest", "kv.quest.share=0.3", "kv.quest.min_pages=1", "kv.quest.page_tokens=2", "kv.quest.group=mean"},
     Rows::selected},
    {"infinigen_groups",
     {"kv.plugin=infinigen", "kv.infinigen.source=own_query", "kv.infinigen.recent=4", "kv.infinigen.min_tokens=4",
      "kv.infinigen.unit=group"},
     Rows::selected},
    {"infinigen_two_ahead",
     {"kv.plugin=infinigen", "kv.infinigen.source=residual_mid", "kv.infinigen.recent=4", "kv.infinigen.min_tokens=4",
      "kv.infinigen.look_ahead=2", "kv.infinigen.key_type=f16"},
     Rows::selected},
    {"infinigen_paper",
     {"kv.plugin=infinigen", "kv.infinigen.preset=paper", "kv.infinigen.dense_layers=1", "kv.infinigen.counts=per_head",
      "kv.infinigen.group=mean"},
     Rows::selected},
    {"infinigen_share",
     {"kv.plugin=infinigen", "kv.infinigen.preset=lean", "kv.infinigen.source=own_query", "kv.infinigen.share=0.4",
      "kv.infinigen.recent=4"},
     Rows::selected},
    {"infinigen_pool_ahead",
     {"kv.plugin=infinigen", "kv.infinigen.source=residual", "kv.infinigen.recent=4", "kv.infinigen.min_tokens=4",
      "kv.infinigen.pool_policy=lru", "kv.infinigen.pool_tokens=40"},
     Rows::replaced},
    {"infinigen_pool_groups",
     {"kv.plugin=infinigen", "kv.infinigen.source=own_query", "kv.infinigen.recent=4", "kv.infinigen.min_tokens=4",
      "kv.infinigen.unit=group", "kv.infinigen.pool_policy=fifo", "kv.infinigen.pool_tokens=40",
      "kv.infinigen.protect_sinks=false"},
     Rows::replaced},
    {"infinigen_artifact_pool",
     {"kv.plugin=infinigen", "kv.infinigen.preset=artifact", "kv.infinigen.pool_policy=lru",
      "kv.infinigen.pool_tokens=24", "kv.infinigen.compat=artifact"},
     Rows::replaced},
};
inline const CodecCase codecs[] = {{"f32", 2e-4, 4, 0, true}, {"f16", 2e-2, 4, 0.45, true}, {"bf16", 0.25, 4, 0.3},
                                   {"i8", 0.3, 4, 0.8},       {"int8", 0.3, 4, 0.35},       {"int4", 3.0, 4, 0.35},
                                   {"kivi", 0, 32, 0.25}};
inline const Place places[] = {{"in place", true, 0},
                               {"in two tiers", true, 8},
                               {"copied, 8 pages", false, 8},
                               {"copied, 14 pages", false, 14},
                               {"copied, 26 pages", false, 26}};

}  // namespace kvplane::test

// pyramidkv: snapkv with a budget that falls from layer to layer.
#include "common/snap_options.h"
#include "common/strategy.h"
#include "layer_budget.h"

namespace {

using namespace kvplane;

constexpr auto table = kv::snap_options(
    kvp::option_i64("beta", "20", 1, kv::most_tokens, "the last layer chooses a beta-th of the mean number of rows"));
constexpr auto options = kvp::pointers(table);

class PyramidKV : public kv::PromptEviction {
public:
    PyramidKV(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model)
        : PromptEviction(host, core, model, settings(host, model)) {}

private:
    static kv::PromptEvictionSettings settings(const kvp::Host& host, const kvp_kv_model& model) {
        kv::PromptEvictionSettings made = kv::read_snap_options("pyramidkv", host);
        const pyramidkv::Pyramid pyramid{model.n_layers, host.option_i64("beta")};
        made.quota = [pyramid, budget = kv::Budget::read(host), window = made.window](uint32_t layer, int64_t n_seen) {
            const kv::Quota mean = kv::Quota::of(budget.rows(n_seen), window);
            const int64_t chosen = pyramidkv::chosen_rows(pyramid, layer, n_seen - mean.newest, mean.chosen);
            return kv::Quota{chosen, mean.newest};
        };
        made.summary += ", budgets fall with beta " + std::to_string(pyramid.beta);
        return made;
    }
};

}  // namespace

KVPLANE_KV_PLUGIN("pyramidkv", PyramidKV, options)

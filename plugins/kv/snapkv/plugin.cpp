// snapkv: every layer keeps as many rows of a prompt as the budget says.
#include "common/budget.h"
#include "common/prompt_eviction.h"
#include "common/snap_options.h"
#include "common/strategy.h"

namespace {

using namespace kvplane;

constexpr auto table = kv::snap_options();
constexpr auto options = kvp::pointers(table);

class SnapKV : public kv::PromptEviction {
public:
    SnapKV(const kvp::Host& host, const kvp_kv_core& core, const kvp_kv_model& model)
        : PromptEviction(host, core, model, settings(host)) {}

private:
    static kv::PromptEvictionSettings settings(const kvp::Host& host) {
        kv::PromptEvictionSettings made = kv::read_snap_options("snapkv", host);
        made.quota = [budget = kv::Budget::read(host), window = made.window](uint32_t, int64_t n_seen) {
            return kv::Quota::of(budget.rows(n_seen), window);
        };
        return made;
    }
};

}  // namespace

KVPLANE_KV_PLUGIN("snapkv", SnapKV, options)

// The cpu plugin, with a check of what attention is told to read: rows in bounds, each at most once, all of them where the
// device reads them, and the newest among them. KVPLANE_TEST_REFUSED_OPS = "row types": cached rows must be f16 or f32.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvplane/device.h"
#include "kvplane/manifest.h"
#include "kvplane/ops.h"
#include "kvplane/plugin.h"

KVP_MANIFEST(
    "{\"kinds\":[\"device\"],\"id\":\"checking\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"sanitizer\":"
    "\"" KVP_MANIFEST_SANITIZER "\"}");

namespace {

const kvp_host* host = nullptr;
const kvp_plugin_descriptor* inner = nullptr;
const kvp_device* inner_device = nullptr;
kvp_device table;
std::set<const kvp_plan*> attention_plans;
// Rows seen so far of each KV head, by the query row that reads them: attention may come in pieces (merge).
std::map<int64_t, std::vector<std::set<int64_t>>> seen;

struct Violation {
    std::string text;
};

void see(const kvp_rows& rows, std::set<int64_t>& mine, uint32_t head, int64_t row, int64_t total) {
    const auto* groups = reinterpret_cast<const uint64_t*>(rows.groups);
    if (row < 0 || row >= total) throw Violation{"row " + std::to_string(row) + " of " + std::to_string(total)};
    if (!mine.insert(row).second) throw Violation{"row " + std::to_string(row) + " is read twice"};
    const auto group = static_cast<uint64_t>(row) / rows.group_tokens;
    if (group >= rows.groups_stride || groups[head * rows.groups_stride + group] == 0) {
        throw Violation{"row " + std::to_string(row) + " is not where the device reads it"};
    }
}

void see_segment(const kvp_attention_item& item, const kvp_segment& segment, std::vector<std::set<int64_t>>& mine) {
    const int64_t total = item.token_begin + item.n_rows;
    for (uint32_t head = 0; head < item.rows->n_kv_heads; ++head) {
        if (segment.form == KVP_SEGMENT_RANGE) {
            for (int64_t row = segment.begin; row < segment.end; ++row) see(*item.rows, mine[head], head, row, total);
        } else if (segment.form != KVP_SEGMENT_VIRTUAL) {
            const auto* index = reinterpret_cast<const int32_t*>(segment.index) + head * segment.index_stride;
            const int32_t count = reinterpret_cast<const int32_t*>(segment.count)[head];
            const int64_t unit = segment.form == KVP_SEGMENT_PAGE_LIST ? segment.page_tokens : 1;
            for (int32_t i = 0; i < count; ++i) {
                for (int64_t row = index[i] * unit; row < (index[i] + 1) * unit; ++row) {
                    const bool left_out = segment.end > 0 && (row < segment.begin || row >= segment.end);
                    const bool later = (segment.flags & KVP_SEGMENT_CAUSAL) != 0 && row >= total;
                    if (!left_out && !later) see(*item.rows, mine[head], head, row, total);
                }
            }
        }
    }
}

// A set is whole when the next one begins: then it must hold the newest row.
void close_sets(const std::map<int64_t, int64_t>& newest) {
    for (const auto& [row, token] : newest) {
        const auto found = seen.find(row);
        if (found == seen.end()) continue;
        for (const auto& of_head : found->second) {
            if (!of_head.contains(token)) throw Violation{"the newest row " + std::to_string(token) + " is not read"};
        }
    }
}

std::map<int64_t, int64_t> newest;  // of the sets in `seen`

void check(const kvp_attention_arguments& arguments) {
    for (uint32_t i = 0; i < arguments.n_items; ++i) {
        const kvp_attention_item& item = *arguments.items[i];
        if (item.merge == 0) {
            const auto open = newest.find(item.row_begin);
            if (open != newest.end()) close_sets({*open});
            seen[item.row_begin].assign(item.rows->n_kv_heads, {});
            newest[item.row_begin] = item.token_begin + item.n_rows - 1;
        }
        for (uint32_t s = 0; s < item.n_segments; ++s) see_segment(item, *item.segments[s], seen[item.row_begin]);
    }
}

kvp_status op_support(kvp_device_object* device, const kvp_op_request* request, kvp_op_answer* answer) {
    const char* const refused = std::getenv("KVPLANE_TEST_REFUSED_OPS");
    const bool asks_for_rows =
        request->attributes != nullptr && std::string_view(request->op.data, request->op.n_bytes) == "kvp.attention/1";
    if (asks_for_rows && refused != nullptr && std::string_view(refused) == "row types") return KVP_UNSUPPORTED;
    return inner_device->op_support(device, request, answer);
}

kvp_status op_prepare(kvp_device_object* device, const kvp_op_request* request, kvp_plan** plan) {
    const kvp_status status = inner_device->op_prepare(device, request, plan);
    if (status == KVP_OK && std::string_view(request->op.data, request->op.n_bytes) == "kvp.attention/1") {
        attention_plans.insert(*plan);
    }
    return status;
}

void op_release(kvp_plan* plan) {
    attention_plans.erase(plan);
    inner_device->op_release(plan);
}

kvp_status op_enqueue(kvp_queue* queue, const kvp_plan* plan, const kvp_tensor* const* operands, uint32_t n_operands,
                      const void* arguments) {
    if (attention_plans.contains(plan)) {
        try {
            check(*static_cast<const kvp_attention_arguments*>(arguments));
        } catch (const Violation& violation) {
            host->set_error(host->context, {violation.text.data(), violation.text.size()});
            return KVP_ERROR_INVALID;
        }
    }
    return inner_device->op_enqueue(queue, plan, operands, n_operands, arguments);
}

kvp_status init(const kvp_host* given) {
    host = given;
    seen.clear();
    newest.clear();
    return inner->init(given);
}

void fini() {
    inner->fini();
}

const void* get_kind(kvp_str) {
    return &table;
}

}  // namespace

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host* given) {
    void* const library = dlopen(KVPLANE_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    inner = reinterpret_cast<kvp_plugin_query_fn>(dlsym(library, KVP_PLUGIN_QUERY_NAME))(given);
    inner_device = static_cast<const kvp_device*>(inner->get_kind({KVP_KIND_DEVICE, sizeof KVP_KIND_DEVICE - 1}));
    table = *inner_device;
    table.op_support = op_support;
    table.op_prepare = op_prepare;
    table.op_release = op_release;
    table.op_enqueue = op_enqueue;
    static kvp_plugin_descriptor descriptor = *inner;
    descriptor.id = {"checking", 8};
    descriptor.init = init;
    descriptor.fini = fini;
    descriptor.get_kind = get_kind;
    return &descriptor;
}

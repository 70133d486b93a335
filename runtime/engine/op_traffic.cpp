#include "engine/op_traffic.h"

#include <algorithm>

#include "memory/page_layout.h"

namespace kvplane {

namespace {

double row_bytes(const kvp_rows& rows) {
    PageLayout layout;
    layout.head_size = rows.head_size;
    layout.type = rows.type;
    return static_cast<double>(layout.row_bytes());
}

// Rows of a segment, a KV head; mean over the heads.
double listed_rows(const kvp_segment& segment, uint32_t kv_heads, bool host_reads) {
    const double each = segment.form == KVP_SEGMENT_PAGE_LIST ? segment.page_tokens : 1;
    if (!host_reads || segment.count == 0) return each * segment.max_count;
    const auto* counts = reinterpret_cast<const int32_t*>(segment.count);
    double sum = 0;
    for (uint32_t head = 0; head < kv_heads; ++head) sum += counts[head];
    return each * sum / kv_heads;
}

// A query and a row: d multiplications for the score and d for the sum, of every query head.
void add_attention(const kvp_attention_item& item, uint32_t n_heads, bool host_reads, OpTraffic& traffic) {
    const kvp_rows& rows = *item.rows;
    const auto queries = static_cast<double>(item.n_rows);
    double read = 0, pairs = 0;  // of a KV head
    double virtual_bytes = 0;
    for (uint32_t i = 0; i < item.n_segments; ++i) {
        const kvp_segment& segment = *item.segments[i];
        if (segment.form == KVP_SEGMENT_VIRTUAL) {
            const double size = segment.virtual_type == KVP_TYPE_F16 ? 2 : 4;
            virtual_bytes += segment.virtual_count * 2.0 * rows.head_size * size;
            pairs += queries * segment.virtual_count;
        } else if (segment.form == KVP_SEGMENT_RANGE) {
            read += static_cast<double>(segment.end - segment.begin);
            for (int64_t query = 0; query < item.n_rows; ++query) {
                const bool causal = (segment.flags & KVP_SEGMENT_CAUSAL) != 0;
                const int64_t end = causal ? std::min(segment.end, item.token_begin + query + 1) : segment.end;
                pairs += static_cast<double>(std::max<int64_t>(0, end - segment.begin));
            }
        } else {
            const double listed = listed_rows(segment, rows.n_kv_heads, host_reads);
            read += listed;
            pairs += queries * listed;
        }
    }
    traffic.bytes += rows.n_kv_heads * (read * row_bytes(rows) + virtual_bytes);
    traffic.flops += 4.0 * pairs * rows.head_size * n_heads;
}

double element_bytes(uint32_t type) {
    switch (type) {
        case KVP_TYPE_F32: return 4;
        case KVP_TYPE_F16: return 2;
        case KVP_TYPE_I8: return 1;
        default: return 0.5;
    }
}

}  // namespace

uint64_t tensor_view_bytes(const kvp_tensor& tensor) {
    const DLTensor& view = *tensor.view;
    uint64_t elements = 1;
    for (int32_t i = 0; i < view.ndim; ++i) elements *= static_cast<uint64_t>(view.shape[i]);
    return elements * view.dtype.bits * view.dtype.lanes / 8;
}

OpTraffic op_traffic(std::string_view op, const kvp_tensor* const* operands, uint32_t n_operands, const void* arguments,
                     bool host_reads) {
    OpTraffic traffic;
    if (op == "kvp.attention/1") {
        // Of q and the result only as many rows as the items name are touched, which is all of them.
        const auto& given = *static_cast<const kvp_attention_arguments*>(arguments);
        for (uint32_t i = 0; i < given.n_items; ++i) add_attention(*given.items[i], given.n_heads, host_reads, traffic);
    } else if (op == "kvp.kv_write/1" || op == "kvp.attention_input/1") {
        const auto& given = *static_cast<const kvp_kv_write_arguments*>(arguments);
        for (uint32_t i = 0; i < given.n_items; ++i) {
            const kvp_kv_write_item& item = *given.items[i];
            traffic.bytes += static_cast<double>(item.n_rows) * item.rows->n_kv_heads * row_bytes(*item.rows);
        }
    } else if (op == "kvp.partial_scores/1") {
        // One query: a row of q, not all of them, is read; its keys; a score each.
        const auto& given = *static_cast<const kvp_partial_scores_arguments*>(arguments);
        const double keys = static_cast<double>(given.n_tokens) * given.n_kv_heads;
        const double scale = given.type == KVP_TYPE_I8 ? 4 : 0;
        traffic.bytes = keys * (given.n_columns * element_bytes(given.type) + scale + 4);
        traffic.flops = 2.0 * static_cast<double>(given.n_tokens) * given.n_heads * given.n_columns;
        return traffic;
    } else if (op == "kvp.select_rows/1") {
        const auto& given = *static_cast<const kvp_select_rows_arguments*>(arguments);
        traffic.bytes = 4.0 * static_cast<double>(given.n_tokens) * given.n_kv_heads;
    }
    for (uint32_t i = 0; i < n_operands; ++i) traffic.bytes += static_cast<double>(tensor_view_bytes(*operands[i]));
    return traffic;
}

}  // namespace kvplane

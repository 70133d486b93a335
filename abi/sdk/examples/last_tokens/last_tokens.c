/* last_tokens: a KV strategy in plain C11, built against the installed headers only.
 *
 * A decode step reads the first `sinks` cached rows and the last `recent` ones (StreamingLLM's set, with true positions);
 * a prompt is read whole. It keeps nothing of its own, so it has no state, no sidecar and no op. */
#include <kvplane/kv.h>
#include <kvplane/manifest.h>
#include <kvplane/plugin.h>

#include <stdlib.h>

#define TEXT(literal) {literal, sizeof(literal) - 1}
#define ID "last_tokens"
#define VERSION "1.0.0"

KVP_MANIFEST("{\"kinds\":[\"kv\"],\"id\":\"" ID "\",\"version\":\"" VERSION
             "\",\"abi\":\"1.0\",\"sanitizer\":\"" KVP_MANIFEST_SANITIZER "\"}");

struct kvp_kv_instance {
    const kvp_kv_core* core;
    kvp_kv_needs needs;
    int64_t sinks;
    int64_t recent;
};

static const kvp_host* host;

static kvp_status create(const kvp_kv_core* core, const kvp_kv_model* model, kvp_kv_instance** instance,
                         const kvp_kv_needs** needs) {
    static const kvp_str sinks = TEXT("sinks");
    static const kvp_str recent = TEXT("recent");
    static const kvp_str summary = TEXT("last_tokens: sinks and a window of the newest rows");
    static const kvp_str no_memory = TEXT("no memory for the instance");
    (void)model;

    kvp_kv_instance* made = calloc(1, sizeof(*made));
    if (made == NULL) {
        host->set_error(host->context, no_memory);
        return KVP_ERROR_MEMORY;
    }
    kvp_status status = host->option_i64(host->context, sinks, &made->sinks);
    if (status == KVP_OK) {
        status = host->option_i64(host->context, recent, &made->recent);
    }
    if (status != KVP_OK) {
        free(made);
        return status;
    }
    made->core = core;
    made->needs.head.struct_size = (uint32_t)sizeof(made->needs);
    made->needs.summary = summary;
    *instance = made;
    *needs = &made->needs;
    return KVP_OK;
}

static void destroy(kvp_kv_instance* instance) { free(instance); }

static kvp_status add_range(const kvp_kv_instance* instance, kvp_kv_call* call, uint32_t sequence, int64_t begin,
                            int64_t end) {
    const kvp_segment segment = {.head = KVP_HEAD(kvp_segment),
                                 .form = KVP_SEGMENT_RANGE,
                                 .flags = KVP_SEGMENT_CAUSAL,
                                 .begin = begin,
                                 .end = end};
    return begin < end ? instance->core->segment(call, sequence, &segment) : KVP_OK;
}

static kvp_status attn_plan(kvp_kv_instance* instance, kvp_kv_call* call, const kvp_kv_step* step) {
    kvp_status status = KVP_OK;
    for (uint32_t i = 0; i < step->n_sequences && status == KVP_OK; i++) {
        const kvp_kv_sequence* sequence = step->sequences[i];
        const int64_t end = sequence->n_cached + sequence->n_rows;
        const int64_t window = sequence->n_cached - instance->recent;
        /* Where the window reaches the sinks, or a prompt is read, the two ranges are one. */
        if (sequence->phase == KVP_PHASE_PREFILL || window <= instance->sinks) {
            status = add_range(instance, call, i, 0, end);
            continue;
        }
        status = add_range(instance, call, i, 0, instance->sinks);
        if (status == KVP_OK) {
            status = add_range(instance, call, i, window, end);
        }
    }
    return status;
}

static const kvp_kv strategy = {
    .head = KVP_HEAD(kvp_kv), .create = create, .destroy = destroy, .attn_plan = attn_plan};

static kvp_status init(const kvp_host* given) {
    host = given;
    return KVP_OK;
}

static void fini(void) { host = NULL; }

static const void* get_kind(kvp_str kind) {
    return kind.n_bytes == 2 && kind.data[0] == 'k' && kind.data[1] == 'v' ? &strategy : NULL;
}

static const kvp_option sinks_option = {.head = KVP_HEAD(kvp_option),
                                        .key = TEXT("sinks"),
                                        .type = KVP_OPTION_I64,
                                        .default_value = TEXT("4"),
                                        .minimum = 0,
                                        .maximum = 1048576,
                                        .doc = TEXT("first rows of the text that every step reads")};

static const kvp_option recent_option = {.head = KVP_HEAD(kvp_option),
                                         .key = TEXT("recent"),
                                         .type = KVP_OPTION_I64,
                                         .default_value = TEXT("256"),
                                         .minimum = 0,
                                         .maximum = 16777216,
                                         .doc = TEXT("newest rows that every step reads, beside the token's own")};

static const kvp_option* const options[] = {&sinks_option, &recent_option};

static const kvp_plugin_descriptor descriptor = {.head = KVP_HEAD(kvp_plugin_descriptor),
                                                 .id = TEXT(ID),
                                                 .version = TEXT(VERSION),
                                                 .vendor = TEXT("kvplane examples"),
                                                 .abi_minor = KVP_ABI_MINOR,
                                                 .min_host_minor = 0,
                                                 .n_options = 2,
                                                 .options = options,
                                                 .init = init,
                                                 .fini = fini,
                                                 .get_kind = get_kind};

KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host* given);

const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host* given) {
    (void)given;
    return &descriptor;
}

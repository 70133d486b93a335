/* A codec plugin that is right in everything. Each file beside this one defines what it breaks, then includes it. */
#include <kvplane/codec.h>
#include <kvplane/manifest.h>
#include <kvplane/plugin.h>

#ifndef ID
#define ID "fault"
#endif
#ifndef MANIFEST_KINDS
#define MANIFEST_KINDS "\"codec\""
#endif
#ifndef MANIFEST_ABI
#define MANIFEST_ABI "1.0"
#endif
#ifndef MANIFEST_SANITIZER
#define MANIFEST_SANITIZER KVP_MANIFEST_SANITIZER
#endif
#ifndef MANIFEST_MORE
#define MANIFEST_MORE ""
#endif
#ifndef MANIFEST
#define MANIFEST                                                                                      \
    "{\"kinds\":[" MANIFEST_KINDS "],\"id\":\"" ID "\",\"version\":\"1.0.0\",\"abi\":\"" MANIFEST_ABI \
    "\",\"sanitizer\":\"" MANIFEST_SANITIZER "\"" MANIFEST_MORE "}"
#endif
#ifndef DESCRIPTOR_SIZE
#define DESCRIPTOR_SIZE (uint32_t)sizeof(kvp_plugin_descriptor)
#endif
#ifndef DESCRIPTOR_ID
#define DESCRIPTOR_ID ID
#endif
#ifndef MIN_HOST_MINOR
#define MIN_HOST_MINOR 0
#endif
#ifndef TABLE_SIZE
#define TABLE_SIZE (uint32_t)sizeof(kvp_codec)
#endif
#ifndef ENCODED_BYTES
#define ENCODED_BYTES encoded_bytes
#endif
#ifndef KIND_SERVED
#define KIND_SERVED 'c'
#endif
#ifndef INIT_BODY
#define INIT_BODY \
    (void)host;   \
    return KVP_OK;
#endif
#ifndef FINI_BODY
#define FINI_BODY
#endif
#ifndef QUERY_BODY
#define QUERY_BODY \
    (void)host;    \
    return &descriptor;
#endif
#ifndef N_OPTIONS
#define N_OPTIONS 0
#define OPTIONS NULL
#endif

#define TEXT(literal) \
    { literal, sizeof(literal) - 1 }

#ifndef NO_MANIFEST
KVP_MANIFEST(MANIFEST);
#endif

static kvp_status info(uint32_t head_size, kvp_codec_info* answer) {
    (void)head_size;
    answer->block_tokens = 1;
    return KVP_OK;
}

static kvp_status encode(uint32_t head_size, uint64_t n_tokens, const uint16_t* rows, void* encoded) {
    (void)head_size, (void)n_tokens, (void)rows, (void)encoded;
    return KVP_UNSUPPORTED;
}

static kvp_status decode(uint32_t head_size, uint64_t n_tokens, const void* encoded, uint16_t* rows) {
    (void)head_size, (void)n_tokens, (void)rows, (void)encoded;
    return KVP_UNSUPPORTED;
}

static inline uint64_t encoded_bytes(uint32_t head_size, uint64_t n_tokens) {
    return head_size * n_tokens;
}

static const kvp_codec codec = {{TABLE_SIZE, 0, NULL}, info, encode, decode, ENCODED_BYTES};

static kvp_status init(const kvp_host* host) {
    INIT_BODY
}

static void fini(void) {
    FINI_BODY
}

static const void* get_kind(kvp_str kind) {
    return kind.n_bytes != 0 && kind.data[0] == KIND_SERVED ? &codec : NULL;
}

static const kvp_plugin_descriptor descriptor = {{DESCRIPTOR_SIZE, 0, NULL},
                                                 TEXT(DESCRIPTOR_ID),
                                                 TEXT("1.0.0"),
                                                 TEXT("kvplane tests"),
                                                 KVP_ABI_MINOR,
                                                 MIN_HOST_MINOR,
                                                 0,
                                                 N_OPTIONS,
                                                 OPTIONS,
                                                 init,
                                                 fini,
                                                 get_kind};

#ifndef NO_ENTRY
KVP_EXPORT const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host* host);
const kvp_plugin_descriptor* kvp_plugin_query_v1(const kvp_host* host) {
    QUERY_BODY
}
#else
const kvp_plugin_descriptor* unused_descriptor(void);
const kvp_plugin_descriptor* unused_descriptor(void) {
    return &descriptor;
}
#endif

/* Identity and needs of a plugin, readable from the file without running it: an ELF note of owner "kvplane" and type 1
 * in section .note.kvplane, whose content is one JSON object:
 *
 *   {"kinds":["kv"], "id":"window", "version":"1.0.0", "abi":"1.0",
 *    "cpu":["avx2"],              features that the code needs before it can even be queried; default none
 *    "drivers":["libcuda.so.1"],  libraries that must be present on the machine; default none
 *    "gpu":["sm_90"],             architectures that the kernels are built for; default none
 *    "sanitizer":"none"}          none | address | thread: must match the host's
 *
 * Put it at file scope, once in the plugin:  KVP_MANIFEST("{\"kinds\":[\"kv\"],\"id\":\"window\", ...}"); */
#ifndef KVPLANE_MANIFEST_H_
#define KVPLANE_MANIFEST_H_

#include "base.h"

#define KVP_MANIFEST_OWNER "kvplane"
#define KVP_MANIFEST_TYPE 1u
#define KVP_MANIFEST_MAX_BYTES 65536u

/* `used` keeps the compiler, and `retain` in the SDK's link options keeps --gc-sections, from dropping it. */
#define KVP_MANIFEST(json)                                                              \
    static const struct {                                                               \
        uint32_t n_owner, n_content, type;                                              \
        char owner[8];                                                                  \
        char content[(sizeof(json) + 3u) / 4u * 4u];                                    \
    } kvp_manifest_note __attribute__((section(".note.kvplane"), used, aligned(4))) = { \
        8u, (uint32_t)sizeof(json), KVP_MANIFEST_TYPE, "kvplane", json}

/* g++ defines macros for its sanitizers, clang answers __has_feature. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KVP_MANIFEST_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define KVP_MANIFEST_SANITIZER "thread"
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KVP_MANIFEST_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define KVP_MANIFEST_SANITIZER "thread"
#endif
#ifndef KVP_MANIFEST_SANITIZER
#define KVP_MANIFEST_SANITIZER "none"
#endif

#endif /* KVPLANE_MANIFEST_H_ */

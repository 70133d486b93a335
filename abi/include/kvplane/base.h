/* kvplane ABI, base: what every other header stands on. Draft of major 1: layouts may still change until the freeze.
 *
 * Conventions, said once for all headers of this folder:
 *  1. C11, clean as C++17. Fixed-width integers and pointers only; no bool, enum, long, size_t or bit-field in a struct.
 *  2. Every struct that crosses opens with kvp_head and grows only at its tail. A writer sets struct_size to the sizeof
 *     it was compiled with and zeroes what it does not know; a reader asks KVP_HAS before it touches a member.
 *     Arrays of such structs are arrays of pointers, since the element size may differ between the two sides.
 *  3. Padding is named and must be zero. Sizes in bytes end in _bytes, times in _ns, counts start with n_.
 *  4. Strings are kvp_str, UTF-8, not NUL-terminated, alive until the call returns unless a comment says longer.
 *  5. A function returns kvp_status: 0 is done, positive is not an error, negative is. On an error nothing changed owner.
 *     A plugin never aborts, exits, throws over the border, or changes signals, locale, environment or the FP mode.
 *  6. Each function has four lines: thread, blocks, owns, since. Thread classes: init (one at a time per process),
 *     serial (one call at a time per object), any. "borrowed" means for the call; an object is freed by the table that
 *     made it.
 */
#ifndef KVPLANE_BASE_H_
#define KVPLANE_BASE_H_

#include <stddef.h>
#include <stdint.h>

#define KVP_ABI_MAJOR 1u
#define KVP_ABI_MINOR 0u

#ifdef __cplusplus
#define KVP_EXTERN_C extern "C"
#else
#define KVP_EXTERN_C extern
#endif
#define KVP_EXPORT KVP_EXTERN_C __attribute__((visibility("default")))

typedef struct kvp_head {
    uint32_t struct_size; /* sizeof as compiled by the writer */
    uint32_t reserved0;   /* zero */
    const void* next;     /* chain of extensions, each {kvp_head, uint32_t type, ...}; NULL ends it */
} kvp_head;

#define KVP_HEAD(type) \
    { (uint32_t)sizeof(type), 0u, NULL }

/* True when `member` ends inside the struct that was given. For scalars. */
#define KVP_COVERS(type, pointer, member) \
    ((pointer) != NULL && (pointer)->head.struct_size >= offsetof(type, member) + sizeof((pointer)->member))
/* The same, and it is not NULL. For pointers and functions. */
#define KVP_HAS(type, pointer, member) (KVP_COVERS(type, pointer, member) && (pointer)->member != NULL)

typedef struct kvp_str {
    const char* data;
    uint64_t n_bytes;
} kvp_str;

/* An address in some device's memory: what its kernels dereference. On a CPU an ordinary pointer, on a GPU the device
 * address (on ROCm it differs from the host's for the same registered page). 0 is "nowhere". */
typedef uint64_t kvp_address;

typedef int32_t kvp_status;
enum {
    KVP_OK = 0,
    /* not errors */
    KVP_AGAIN = 1,       /* no room or not ready now, call again later */
    KVP_NO_SPACE = 2,    /* the budget is used up */
    KVP_NOT_FOUND = 3,   /* nothing by that name */
    KVP_UNSUPPORTED = 4, /* a clear no; host->set_error holds the reason */
    KVP_STOPPED = 5,     /* the host is stopping */
    /* errors */
    KVP_ERROR_INVALID = -1,  /* an argument is wrong */
    KVP_ERROR_MEMORY = -2,   /* an allocation failed */
    KVP_ERROR_IO = -3,       /* a read, write or copy failed */
    KVP_ERROR_DEVICE = -4,   /* the device failed or is lost */
    KVP_ERROR_CORRUPT = -5,  /* data failed its check */
    KVP_ERROR_INTERNAL = -6, /* a bug of the callee */
    KVP_ERROR_TIMEOUT = -7,  /* the deadline passed */
    KVP_ERROR_VERSION = -8   /* the two sides cannot talk */
};

/* Tiers: a memory with a byte budget. 0 is invalid, values under 0x10000000 are ours. */
enum { KVP_TIER_DEVICE = 1, KVP_TIER_PINNED = 2, KVP_TIER_HOST = 3, KVP_TIER_DISK = 4 };

/* Element types of plain arrays that cross by address. */
enum {
    KVP_TYPE_F32 = 1,
    KVP_TYPE_F16 = 2,
    KVP_TYPE_BF16 = 3,
    KVP_TYPE_I8 = 4,
    KVP_TYPE_I4 = 5,
    KVP_TYPE_I32 = 6,
    /* of cached rows only (ops.h) */
    KVP_TYPE_I8_GROUPS = 7,
    KVP_TYPE_I4_GROUPS = 8
};

/* Plugin kinds, by name in manifests and in get_kind. */
#define KVP_KIND_DEVICE "device"
#define KVP_KIND_KV "kv"
#define KVP_KIND_CODEC "codec"
#define KVP_KIND_TRANSFER "transfer"

#endif /* KVPLANE_BASE_H_ */

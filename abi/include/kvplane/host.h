/* Services of the core that every plugin gets, and the options of its TOML table.
 * All functions are non-NULL; a later minor appends more, so ask KVP_HAS for those. */
#ifndef KVPLANE_HOST_H_
#define KVPLANE_HOST_H_

#include "base.h"

enum {
    KVP_LOG_TRACE = 1,
    KVP_LOG_DEBUG = 2,
    KVP_LOG_INFO = 3,
    KVP_LOG_WARN = 4,
    KVP_LOG_ERROR = 5,
    KVP_LOG_HOST_MISBEHAVING = 6,
    KVP_LOG_PLUGIN_MISBEHAVING = 7
};

typedef struct kvp_host_context kvp_host_context; /* the core's; differs per plugin */

typedef struct kvp_host {
    kvp_head head;
    kvp_host_context* context; /* first argument of every function below */
    uint32_t abi_major;
    uint32_t abi_minor;

    /* Writes one log line; the core puts the plugin's id before it.
     * thread: any
     * blocks: no
     * owns: message borrowed
     * since: 1.0 */
    void (*log)(kvp_host_context* context, uint32_t level, kvp_str message);

    /* Text for people that goes with the next status that is not KVP_OK, on this thread.
     * thread: any
     * blocks: no
     * owns: message copied
     * since: 1.0 */
    void (*set_error)(kvp_host_context* context, kvp_str message);

    /* Host memory, aligned to `alignment` (a power of two); NULL when there is none.
     * thread: any
     * blocks: no
     * owns: moved to the caller, who gives it back by free with the same size
     * since: 1.0 */
    void* (*alloc)(kvp_host_context* context, uint64_t n_bytes, uint64_t alignment);

    /* Gives back what alloc gave.
     * thread: any
     * blocks: no
     * owns: moved to the host
     * since: 1.0 */
    void (*free)(kvp_host_context* context, void* memory, uint64_t n_bytes, uint64_t alignment);

    /* The value of an option that the descriptor declares; its default when the pipeline does not set it.
     * KVP_NOT_FOUND: not declared, or of another type. The number of threads that the pipeline grants a device stands
     * under the reserved key "threads".
     * thread: any
     * blocks: no
     * owns: key borrowed; a string value lives as long as the plugin
     * since: 1.0 */
    kvp_status (*option_bool)(kvp_host_context* context, kvp_str key, uint32_t* value);
    kvp_status (*option_i64)(kvp_host_context* context, kvp_str key, int64_t* value);
    kvp_status (*option_f64)(kvp_host_context* context, kvp_str key, double* value);
    kvp_status (*option_str)(kvp_host_context* context, kvp_str key, kvp_str* value);

    /* Monotonic clock.
     * thread: any
     * blocks: no
     * owns: nothing
     * since: 1.0 */
    uint64_t (*now_ns)(kvp_host_context* context);

    /* True once the process wants to end: give up waits.
     * thread: any
     * blocks: no
     * owns: nothing
     * since: 1.0 */
    uint32_t (*is_stopping)(kvp_host_context* context);

    /* An optional service by "vendor.name/revision"; NULL when the host has none of that name.
     * thread: any
     * blocks: no
     * owns: the table lives as long as the process
     * since: 1.0 */
    const void* (*get_extension)(kvp_host_context* context, kvp_str id);
} kvp_host;

enum { KVP_OPTION_BOOL = 1, KVP_OPTION_I64 = 2, KVP_OPTION_F64 = 3, KVP_OPTION_STR = 4 };

/* One key of the plugin's TOML table ([kv.NAME], [device.NAME] …). Numbers are checked against [minimum, maximum]
 * (both 0: no limits), strings against `choices` ("a|b|c", empty: any). The default is text as it would stand in TOML, without quotes. */
typedef struct kvp_option {
    kvp_head head;
    kvp_str key;
    uint32_t type;
    uint32_t reserved0;
    kvp_str default_value;
    double minimum;
    double maximum;
    kvp_str choices;
    kvp_str doc; /* one line */
} kvp_option;

#endif /* KVPLANE_HOST_H_ */

/* The one exported function of a plugin, and the descriptor that it returns. */
#ifndef KVPLANE_PLUGIN_H_
#define KVPLANE_PLUGIN_H_

#include "host.h"

enum {
    KVP_PLUGIN_SPAWNS_THREADS = 1u << 0, /* starts threads of its own after init */
    KVP_PLUGIN_FORK_SAFE = 1u << 1       /* may be used in a child after fork */
};

/* Constant data. Reading it starts no thread, opens no device, allocates nothing. */
typedef struct kvp_plugin_descriptor {
    kvp_head head;
    kvp_str id;      /* the same as in the manifest */
    kvp_str version; /* of the plugin, for people */
    kvp_str vendor;
    uint32_t abi_minor;      /* built against this minor of the major in the symbol's name */
    uint32_t min_host_minor; /* refuses older hosts */
    uint32_t flags;
    uint32_t n_options;
    const kvp_option* const* options;

    /* Before any kind is used. `host` lives as long as the process. Comes again only after fini, and may then find other
     * option values: keep nothing between the two.
     * thread: init
     * blocks: yes
     * owns: host borrowed until fini
     * since: 1.0 */
    kvp_status (*init)(const kvp_host* host);

    /* Once, after every object of the plugin was destroyed. The library stays mapped.
     * thread: init
     * blocks: yes
     * owns: nothing
     * since: 1.0 */
    void (*fini)(void);

    /* The table of a kind (kvp_device, kvp_kv, kvp_codec, kvp_transfer), NULL when the plugin does not serve it.
     * thread: any
     * blocks: no
     * owns: constant data of the plugin
     * since: 1.0 */
    const void* (*get_kind)(kvp_str kind);
} kvp_plugin_descriptor;

/* Exported as kvp_plugin_query_v1. NULL refuses this host; host->set_error says why.
 * thread: init
 * blocks: no
 * owns: constant data of the plugin
 * since: 1.0 */
typedef const kvp_plugin_descriptor* (*kvp_plugin_query_fn)(const kvp_host* host);
#define KVP_PLUGIN_QUERY_NAME "kvp_plugin_query_v1"

#endif /* KVPLANE_PLUGIN_H_ */

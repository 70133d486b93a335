/* Device kind: memory, queues, events and ops of one vendor's hardware. Get it by get_kind("device").
 * Required: every member but those marked optional. All functions of an open device are thread-safe unless said. */
#ifndef KVPLANE_DEVICE_H_
#define KVPLANE_DEVICE_H_

#include "event.h"
#include "ops.h"
#include "tensor.h"

typedef struct kvp_device_object kvp_device_object; /* an open device, the plugin's */
typedef struct kvp_plan kvp_plan;                   /* a prepared op, the plugin's; immutable */

enum {
    /* The device reads and writes ordinary host memory by its ordinary address: what the host allocates needs no copy
     * (a CPU). Device memory is then host memory too. */
    KVP_DEVICE_HOST_MEMORY = 1u << 0,
    /* Kernels can read memory that was registered by pin, in place (zero-copy). */
    KVP_DEVICE_READS_PINNED = 1u << 1,
    /* Work of a queue may still run when enqueue returns. Without it every enqueue has finished on return. */
    KVP_DEVICE_ASYNCHRONOUS = 1u << 2
};

typedef struct kvp_device_info {
    kvp_head head;
    kvp_str id;   /* stable: PCI address, UUID or "cpu"; as long as the plugin */
    kvp_str name; /* for people */
    kvp_str arch; /* "x86-64-v4", "sm_90" … */
    DLDeviceType dl_type;
    int32_t dl_index;
    uint64_t flags;           /* KVP_DEVICE_* */
    uint64_t total_bytes;     /* device memory, 0: unknown */
    uint32_t n_threads;       /* CPU threads in use, 0 where it means nothing */
    uint32_t alignment_bytes; /* of memory that it wants */
} kvp_device_info;

/* What is asked of op_support and op_prepare. */
typedef struct kvp_op_request {
    kvp_head head;
    kvp_str op;                         /* "kvp.linear/1"; ops.h lists those of the core */
    const void* attributes;             /* the op's attribute struct of ops.h, or NULL */
    const kvp_tensor* const* constants; /* operands that never change (weights); must outlive the plan */
    uint32_t n_constants;
    uint32_t reserved0;
    int64_t max_rows; /* upper bound of rows of a call; 0: unknown */
} kvp_op_request;

typedef struct kvp_op_answer {
    kvp_head head;
    uint64_t cost_ns;      /* estimate for max_rows, 0: unknown */
    uint64_t packed_bytes; /* memory that the plan keeps for repacked constants */
    char reason[256];      /* why not, NUL-terminated; empty when supported */
} kvp_op_answer;

typedef struct kvp_copy_region {
    kvp_address from;
    kvp_address to;
    uint64_t n_bytes;
} kvp_copy_region;

typedef struct kvp_device {
    kvp_head head;

    /* How many devices there are; opens none and needs no driver. 0 with a reason in set_error when there are none.
     * thread: any
     * blocks: no
     * owns: nothing
     * since: 1.0 */
    uint32_t (*count)(void);

    /* Describes device `index`.
     * thread: any
     * blocks: no
     * owns: info is the caller's; its strings the plugin's
     * since: 1.0 */
    kvp_status (*info)(uint32_t index, kvp_device_info* info);

    /* Opens a device, closes it. Everything made from it must be gone before close.
     * thread: init
     * blocks: yes
     * owns: open moves the object to the caller, close takes it back
     * since: 1.0 */
    kvp_status (*open)(uint32_t index, kvp_device_object** device);
    void (*close)(kvp_device_object* device);

    /* Device memory. KVP_ERROR_MEMORY when there is none left; never aborts.
     * thread: any
     * blocks: yes
     * owns: alloc moves the memory to the caller, free takes it back with the same size
     * since: 1.0 */
    kvp_status (*alloc)(kvp_device_object* device, uint64_t n_bytes, uint64_t alignment, kvp_address* address);
    void (*free)(kvp_device_object* device, kvp_address address, uint64_t n_bytes);

    /* Registers foreign host memory for fast copies and, where READS_PINNED, for kernels at *address. Optional.
     * thread: any
     * blocks: yes
     * owns: memory borrowed until unpin
     * since: 1.0 */
    kvp_status (*pin)(kvp_device_object* device, void* memory, uint64_t n_bytes, kvp_address* address);
    void (*unpin)(kvp_device_object* device, void* memory, uint64_t n_bytes);

    /* Queues and events (event.h). signal: the event reaches `value` when the queue gets there. wait: the queue goes on
     * when it has. host_wait blocks the caller up to timeout_ns and says KVP_ERROR_TIMEOUT after it. host_signal raises
     * the value from the host, for transfers that end there.
     * thread: any; signal, wait and enqueue on one queue are serial
     * blocks: host_wait only
     * owns: create moves the object to the caller, destroy takes it back
     * since: 1.0 */
    kvp_status (*queue_create)(kvp_device_object* device, int32_t priority, kvp_queue** queue);
    void (*queue_destroy)(kvp_queue* queue);
    kvp_status (*event_create)(kvp_device_object* device, kvp_event** event);
    void (*event_destroy)(kvp_event* event);
    kvp_status (*signal)(kvp_queue* queue, kvp_event* event, uint64_t value);
    kvp_status (*wait)(kvp_queue* queue, kvp_event* event, uint64_t value);
    kvp_status (*event_query)(kvp_event* event, uint64_t* value);
    kvp_status (*host_wait)(kvp_event* event, uint64_t value, uint64_t timeout_ns);
    kvp_status (*host_signal)(kvp_event* event, uint64_t value);

    /* Copies between host and device memory, in the queue's order. Regions must not overlap. Host memory that is not
     * pinned is allowed, and may make the call wait for the queue.
     * thread: serial: queue
     * blocks: no
     * owns: the bytes stay put until the queue has passed
     * since: 1.0 */
    kvp_status (*copy)(kvp_queue* queue, const kvp_copy_region* regions, uint32_t n_regions);

    /* Whether this op, with these attributes and constants, can run: KVP_OK or KVP_UNSUPPORTED, with cost and reason.
     * thread: any
     * blocks: no
     * owns: all borrowed
     * since: 1.0 */
    kvp_status (*op_support)(kvp_device_object* device, const kvp_op_request* request, kvp_op_answer* answer);

    /* Makes a plan, repacking constants if that helps. A plan may be used by several queues at once.
     * thread: any
     * blocks: yes
     * owns: the plan moves to the caller; constants borrowed until op_release
     * since: 1.0 */
    kvp_status (*op_prepare)(kvp_device_object* device, const kvp_op_request* request, kvp_plan** plan);
    void (*op_release)(kvp_plan* plan);

    /* Puts one op on the queue: operands as ops.h lists them (constants left out), `arguments` the op's struct or NULL.
     * thread: serial: queue
     * blocks: no, but see ASYNCHRONOUS
     * owns: structs borrowed for the call; the memory behind addresses until the queue has passed
     * since: 1.0 */
    kvp_status (*op_enqueue)(kvp_queue* queue, const kvp_plan* plan, const kvp_tensor* const* operands,
                             uint32_t n_operands, const void* arguments);
} kvp_device;

#endif /* KVPLANE_DEVICE_H_ */

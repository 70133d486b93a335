/* Queues and events: the one way in which work is ordered.
 *
 * A queue is an ordered lane of device work. An event is a timeline: a 64-bit value that only rises. A queue signals a
 * value when it gets there and waits for a value before it goes on; the host may ask or wait. Nothing else orders two
 * queues, a queue and a transfer, or a queue and the host. Value 0 is reached from the start. */
#ifndef KVPLANE_EVENT_H_
#define KVPLANE_EVENT_H_

#include "base.h"

typedef struct kvp_queue kvp_queue; /* the device plugin's */
typedef struct kvp_event kvp_event; /* the device plugin's */

typedef struct kvp_event_point {
    kvp_event* event; /* NULL: no condition */
    uint64_t value;
} kvp_event_point;

#endif /* KVPLANE_EVENT_H_ */

#define QUERY_BODY                                              \
    static const kvp_str reason = TEXT("the moon is not full"); \
    host->set_error(host->context, reason);                     \
    return NULL;
#include "fault.h"
const kvp_plugin_descriptor* unused_descriptor(void);
const kvp_plugin_descriptor* unused_descriptor(void) { return &descriptor; }

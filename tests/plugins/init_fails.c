#define INIT_BODY                                                   \
    static const kvp_str reason = TEXT("the coffee is cold today"); \
    host->set_error(host->context, reason);                         \
    return KVP_ERROR_DEVICE;
#include "fault.h"

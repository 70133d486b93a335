#define INIT_BODY \
    (void)host;   \
    throw 7;
#include "fault.h"

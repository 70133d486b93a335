#define INIT_BODY (void)host; return KVP_NO_SPACE;
#include "fault.h"

/* The manifest promises a codec, get_kind knows none. */
#define KIND_SERVED 'x'
#include "fault.h"

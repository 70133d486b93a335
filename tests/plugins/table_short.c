/* The kind's table ends before its last required function. */
#define TABLE_SIZE (uint32_t)sizeof(kvp_codec) - 8
#include "fault.h"

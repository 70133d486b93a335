/* Ends before get_kind. */
#define DESCRIPTOR_SIZE (uint32_t)sizeof(kvp_plugin_descriptor) - 8
#include "fault.h"

#define DESCRIPTOR_SIZE (uint32_t)sizeof(kvp_plugin_descriptor) + 4
#include "fault.h"

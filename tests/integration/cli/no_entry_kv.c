#define MANIFEST_KINDS "\"kv\""
#define NO_ENTRY
#include "plugins/fault.h"

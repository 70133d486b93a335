#define MANIFEST_ABI "2.0"
#include "fault.h"

#define MANIFEST_SANITIZER "memory"
#include "fault.h"

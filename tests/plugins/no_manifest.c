#define NO_MANIFEST
#include "fault.h"

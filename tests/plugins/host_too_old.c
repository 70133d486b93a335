#define MIN_HOST_MINOR 99
#include "fault.h"

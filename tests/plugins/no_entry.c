#define NO_ENTRY
#include "fault.h"

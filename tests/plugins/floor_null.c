#define ENCODED_BYTES NULL
#include "fault.h"

#define DESCRIPTOR_ID "other"
#include "fault.h"

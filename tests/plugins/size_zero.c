#define DESCRIPTOR_SIZE 0
#include "fault.h"

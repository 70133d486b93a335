#define DESCRIPTOR_SIZE 0x7ffffff8u
#include "fault.h"

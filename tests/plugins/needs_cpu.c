#define MANIFEST_MORE ",\"cpu\":[\"quantum_entangler\"]"
#include "fault.h"

#define MANIFEST "{\"kinds\":[\"codec\"], \"id\":"
#include "fault.h"

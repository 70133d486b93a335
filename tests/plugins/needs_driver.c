#define MANIFEST_MORE ",\"drivers\":[\"libkvplane_no_such_driver.so.7\"]"
#include "fault.h"

/* Leaves a trace as soon as it is loaded: whoever only looks at it must not. */
#include <stdio.h>
#include <stdlib.h>
#define ID "constructor_writes"
#include "fault.h"

__attribute__((constructor)) static void leave_a_trace(void) {
    const char* const path = getenv("KVPLANE_TEST_TRACE");
    FILE* const file = path == NULL ? NULL : fopen(path, "w");
    if (file != NULL) fclose(file);
}

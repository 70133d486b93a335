/* Linked with a library (absent.c) that the dynamic linker cannot find. */
extern int kvplane_test_absent(void);
#define INIT_BODY (void)host; return kvplane_test_absent();
#include "fault.h"

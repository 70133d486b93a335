/* Linked with a library (tests/plugins/absent.c) that the dynamic linker cannot find. */
extern int kvplane_test_absent(void);
#define MANIFEST_KINDS "\"kv\""
#define INIT_BODY (void)host; return kvplane_test_absent();
#include "plugins/fault.h"

extern int kvplane_test_defined_nowhere(void);
#define INIT_BODY (void)host; return kvplane_test_defined_nowhere();
#include "fault.h"

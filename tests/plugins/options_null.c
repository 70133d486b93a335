#define N_OPTIONS 2
#define OPTIONS NULL
#include "fault.h"

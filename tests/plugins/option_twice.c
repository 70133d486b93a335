#include <kvplane/host.h>
static const kvp_option bits = {
    KVP_HEAD(kvp_option), {"bits", 4}, KVP_OPTION_I64, 0, {"4", 1}, 1, 8, {NULL, 0}, {"bits a value", 12}};
static const kvp_option* const declared[] = {&bits, &bits};
#define N_OPTIONS 2
#define OPTIONS declared
#include "fault.h"

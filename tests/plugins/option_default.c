/* The default lies outside of its own range. */
#include <kvplane/host.h>
static const kvp_option wide = {
    KVP_HEAD(kvp_option), {"bits", 4}, KVP_OPTION_I64, 0, {"64", 2}, 1, 8, {NULL, 0}, {"bits a value", 12}};
static const kvp_option* const declared[] = {&wide};
#define N_OPTIONS 1
#define OPTIONS declared
#include "fault.h"

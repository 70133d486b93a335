#include "common/strategy.h"
#include "instance.h"

KVPLANE_KV_PLUGIN("quest", kvplane::quest::Instance, kvplane::quest::options)

#include "common/strategy.h"
#include "instance.h"

KVPLANE_KV_PLUGIN("window", kvplane::window::Instance, kvplane::window::options)

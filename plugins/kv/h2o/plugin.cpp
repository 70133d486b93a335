#include "common/strategy.h"
#include "instance.h"

KVPLANE_KV_PLUGIN("h2o", kvplane::h2o::Instance, kvplane::h2o::options)

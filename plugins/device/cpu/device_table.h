#pragma once

#include "kvplane/device.h"

namespace kvplane::cpu {

const kvp_device* device_table();

}  // namespace kvplane::cpu

#include <stdexcept>
#define INIT_BODY \
    (void)host;   \
    throw std::runtime_error("init says boo");
#include "fault.h"

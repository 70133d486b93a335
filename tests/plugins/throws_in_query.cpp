#include <stdexcept>
#define QUERY_BODY    \
    (void)host;       \
    (void)descriptor; \
    throw std::runtime_error("query says boo");
#include "fault.h"

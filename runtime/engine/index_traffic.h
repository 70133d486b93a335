// What a strategy reads beside the KV to find the rows that it wants: partial keys, page means.
#pragma once

#include <string_view>

namespace kvplane {

// Bytes of the strategy's own data that a call of this op goes through, each once; 0 for an op that reads none.
// Whether the host may read the lists that `arguments` point at: else their room counts in full.
double index_bytes(std::string_view op, const void* arguments, bool host_reads);

}  // namespace kvplane

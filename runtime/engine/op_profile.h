// Times every op that runs on a device, those of the strategy as well: a table stands in front of the device plugin's own
// and passes every call on. Who asks for no profile gets the plugin's table, so it costs nothing then.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "kvplane/device.h"

namespace kvplane {

// All calls of one kind of op since the last clear(). Calls are of one kind if op and constants are alike: so the
// output projection of every layer is one kind, and the down projection another.
struct OpCalls {
    std::string op;         // "kvp.linear/1"
    std::string constants;  // "q4_1 1536>576": format, columns and rows of each; empty: none
    bool quantised = false;
    uint64_t calls = 0;
    double seconds = 0;
    double bytes = 0;  // constants, operands and cached rows, each once a call
    double flops = 0;  // of matrix products and attention; 2 a multiplication with its addition
};

// One at a time in a process, from one thread: the ABI's calls carry no place to keep it in.
class OpProfile {
public:
    OpProfile();
    ~OpProfile();
    OpProfile(const OpProfile&) = delete;
    OpProfile& operator=(const OpProfile&) = delete;

    // The table that times; `device` and this profile must outlive its use. One device plugin a profile; throws
    // Error(usage) for another.
    const kvp_device* wrap(const kvp_device* device);

    void clear();
    std::vector<OpCalls> calls() const;  // the longest first

private:
    friend struct OpProfileHooks;

    struct Plan {
        OpCalls* calls;
        double constant_bytes;
        double matrix_elements;
        bool reads_rows;  // of its constant, one for each id: an embedding
    };

    void add_plan(const kvp_plan* plan, const kvp_op_request& request);
    void add_call(const Plan& plan, const kvp_tensor* const* operands, uint32_t n_operands, const void* arguments,
                  double seconds);

    const kvp_device* device_ = nullptr;
    kvp_device table_{};
    std::map<std::pair<std::string, std::string>, OpCalls> kinds_;
    std::unordered_map<const kvp_plan*, Plan> plans_;
    uint64_t flags_ = 0;                                                      // KVP_DEVICE_*
    std::unordered_map<kvp_queue*, std::pair<kvp_event*, uint64_t>> events_;  // of a device that runs behind the host
};

}  // namespace kvplane

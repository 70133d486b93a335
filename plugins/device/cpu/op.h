// What each op file offers: a check, a plan, and an entry in the registry.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device.h"
#include "error.h"
#include "kvplane/ops.h"
#include "tensor_view.h"

// A prepared op. It keeps what it read of its attributes and constants, and nothing of a call.
struct kvp_plan {
    virtual ~kvp_plan() = default;
    virtual void run(kvp_queue& queue, const kvplane::cpu::Operands& operands, const void* arguments) const = 0;
};

namespace kvplane::cpu {

// A struct of the ABI whose first `bytes` must be there: all of it, but where it has grown since callers were built.
template <typename T>
const T& structure(const void* pointer, const char* what, size_t bytes = sizeof(T)) {
    const auto* found = static_cast<const T*>(pointer);
    if (found == nullptr || found->head.struct_size < bytes) invalid(std::string(what) + " is missing or too short");
    return *found;
}

class Request {
public:
    explicit Request(const kvp_op_request& request) : request_(request) {}

    template <typename T>
    const T& attributes() const {
        return structure<T>(request_.attributes, "the op's attribute struct");
    }
    bool has_attributes() const { return request_.attributes != nullptr; }
    uint32_t n_constants() const { return request_.n_constants; }
    const kvp_tensor& constant(uint32_t index) const {
        if (index >= request_.n_constants || request_.constants == nullptr || request_.constants[index] == nullptr) {
            invalid("constant " + std::to_string(index) + " of the op is missing");
        }
        return *request_.constants[index];
    }
    void expect_constants(uint32_t n) const {
        if (request_.n_constants != n) {
            invalid("the op takes " + std::to_string(n) + " constants, not " + std::to_string(request_.n_constants));
        }
    }

private:
    const kvp_op_request& request_;
};

struct Operation {
    std::string_view id;
    // Throws PluginError with the reason when the request cannot be served; bytes that a plan would keep.
    uint64_t (*check)(const Device& device, const Request& request);
    std::unique_ptr<kvp_plan> (*prepare)(Device& device, const Request& request);
};

const Operation* find_operation(std::string_view id);

extern const Operation kEmbed;
extern const Operation kRmsNorm;
extern const Operation kLinear;
extern const Operation kSwiglu;
extern const Operation kRope;
extern const Operation kKvWrite;
extern const Operation kAttentionInput;
extern const Operation kFeedForward;
extern const Operation kAttention;
extern const Operation kColumnStatistics;
extern const Operation kPartialIndex;
extern const Operation kPartialKeys;
extern const Operation kPartialScores;
extern const Operation kSelectPages;
extern const Operation kSelectRows;
extern const Operation kPageMeans;
extern const Operation kPageBounds;
extern const Operation kPageBoundScores;
extern const Operation kTurnedRows;
extern const Operation kColumnSums;
extern const Operation kPoolScores;
extern const Operation kPageBias;

// An op without constants and attributes: all it does is one function.
template <void (*kRun)(kvp_queue& queue, const Operands& operands, const void* arguments)>
constexpr Operation plain_operation(std::string_view id) {
    struct Plan final : kvp_plan {
        void run(kvp_queue& queue, const Operands& operands, const void* arguments) const override {
            kRun(queue, operands, arguments);
        }
    };
    return {id,
            [](const Device&, const Request& request) -> uint64_t {
                request.expect_constants(0);
                return 0;
            },
            [](Device&, const Request&) -> std::unique_ptr<kvp_plan> { return std::make_unique<Plan>(); }};
}

}  // namespace kvplane::cpu

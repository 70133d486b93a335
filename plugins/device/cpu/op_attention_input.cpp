// kvp.attention_input/1: norm, the three projections, rotation and writing to the cache. A part is some rows of some
// heads, which are turned and written while they are in the cache of the thread that made them.
#include "linear_weights.h"
#include "new_rows.h"
#include "op.h"
#include "rotation.h"

namespace kvplane::cpu {
namespace {

enum Output { kQuery, kKey, kValue, kOutputs };

class AttentionInput final : public kvp_plan {
public:
    AttentionInput(Norm norm, LinearWeights weights, Rotation rotation)
        : norm_(std::move(norm)), weights_(std::move(weights)), rotation_(std::move(rotation)) {}

    void run(kvp_queue& queue, const Operands& operands, const void* arguments) const override {
        operands.expect(2 + kOutputs);
        const Matrix<float> x = operands.f32(0, "x");
        const RotationTable& table = rotation_.table(queue, operands.i32(1, "positions", x.rows), x.rows);
        Matrix<float> out[kOutputs];
        for (uint32_t i = 0; i < kOutputs; ++i) {
            out[i] = operands.f32(2 + i, "q, k or v", x.rows, weights_.rows(i));
        }
        const NewRows cache(queue, arguments, x.rows, out[kKey].columns);
        const int64_t d = rotation_.head_size();
        if (cache.n_kv_heads() > 0 && cache.head_size() != d)
            invalid("the cached rows have another head size than rope");
        const Activations in = weights_.activations(queue, x, norm_);
        const Kernels& kernels = queue.device.kernels;
        const int64_t panels_a_head = d / kPanelRows;
        const int64_t n_heads = weights_.n_panels() / panels_a_head;
        run_parts(queue.device.pool, x.rows, n_heads, 1, [&](Range rows, Range heads, uint32_t) {
            int64_t first = 0;  // head of this output, counted over all
            for (uint32_t i = 0; i < kOutputs; first += out[i++].columns / d) {
                const Range here{std::max(heads.begin - first, int64_t{0}),
                                 std::min(heads.end - first, out[i].columns / d)};
                if (here.begin >= here.end) continue;
                weights_.multiply(kernels, in, i, rows, {here.begin * panels_a_head, here.end * panels_a_head},
                                  out[i].row(rows.begin) + here.begin * d, out[i].columns, false);
                for (int64_t row = rows.begin; row < rows.end; ++row) {
                    for (int64_t head = here.begin; head < here.end; ++head) {
                        float* values = out[i].row(row) + head * d;
                        if (i != kValue) rotation_.rotate(kernels, table, row, values);
                        if (i == kKey) cache.write_key(row, head, values);
                        if (i == kValue) cache.write_value(row, head, values);
                    }
                }
            }
        });
    }

private:
    const Norm norm_;
    const LinearWeights weights_;
    const Rotation rotation_;
};

constexpr uint32_t kFirstWeight = 1;
constexpr uint32_t kFrequencies = kFirstWeight + kOutputs;

kvp_rope_attributes rope_of(const kvp_attention_input_attributes& attributes) {
    return {KVP_HEAD(kvp_rope_attributes), attributes.style, attributes.head_size, attributes.dimensions,
            attributes.magnitude};
}

uint64_t check(const Device&, const Request& request) {
    const auto& attributes = request.attributes<kvp_attention_input_attributes>();
    request.expect_constants(kFrequencies + 1);
    Rotation::check(rope_of(attributes), request.constant(kFrequencies));
    const int64_t d = attributes.head_size;
    if (d % kPanelRows != 0) unsupported("the head size must be a multiple of 16");
    const uint64_t bytes = LinearWeights::check(request, kFirstWeight, kFrequencies, attributes.exact_f32 != 0);
    for (uint32_t i = kFirstWeight; i < kFrequencies; ++i) {
        if (weights_of(request.constant(i), "weight").rows % d != 0) {
            invalid("weight " + std::to_string(i) + " is not a whole number of heads");
        }
    }
    const Norm norm(request.constant(0), attributes.epsilon);
    if (static_cast<int64_t>(norm.weight.size()) != weights_of(request.constant(kFirstWeight), "weight").columns) {
        invalid("the norm is not as wide as the weights");
    }
    return bytes;
}

std::unique_ptr<kvp_plan> prepare(Device& device, const Request& request) {
    const auto& attributes = request.attributes<kvp_attention_input_attributes>();
    return std::make_unique<AttentionInput>(
        Norm(request.constant(0), attributes.epsilon),
        LinearWeights(request, kFirstWeight, kFrequencies, attributes.exact_f32 != 0, device.pool),
        Rotation(rope_of(attributes), request.constant(kFrequencies)));
}

}  // namespace

const Operation kAttentionInput = {"kvp.attention_input/1", check, prepare};

}  // namespace kvplane::cpu

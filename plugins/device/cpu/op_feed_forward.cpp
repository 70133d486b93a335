// kvp.feed_forward/1: norm, gate and up, SwiGLU, down. A part of the first region makes the same columns of gate and
// up, gates them while they are in cache, and leaves them as the down projection reads them.
#include "linear_weights.h"
#include "op.h"

namespace kvplane::cpu {
namespace {

enum Half { kGate, kUp };

constexpr int64_t kUnitColumns =
    kBlock;  // two panels, so that a unit fills whole blocks of the down projection's input
constexpr int64_t kUnitPanels = kUnitColumns / kPanelRows;
// Of many rows, this much of gate and up is made at a time: 2 x 32 KiB.
constexpr int64_t kTileRows = 64;
constexpr int64_t kTileUnits = 4;

class FeedForward final : public kvp_plan {
public:
    FeedForward(Norm norm, LinearWeights gate_up, LinearWeights down)
        : norm_(std::move(norm)), gate_up_(std::move(gate_up)), down_(std::move(down)) {}

    void run(kvp_queue& queue, const Operands& operands, const void*) const override {
        operands.expect(1);
        const Matrix<float> x = operands.f32(0, "x");
        const Activations in = gate_up_.activations(queue, x, norm_);
        const Activations hidden = gated(queue, in, x.rows);
        float* out = x.data;
        constexpr int64_t kGrain = 2;  // panels: a kernel reads two at a time
        run_parts(queue.device.pool, x.rows, down_.n_panels(), kGrain, [&](Range rows, Range panels, uint32_t) {
            down_.multiply(queue.device.kernels, hidden, rows, panels, {&out, 1}, true);
        });
    }

private:
    int64_t width() const { return down_.width(); }

    Activations gated(kvp_queue& queue, const Activations& in, int64_t n_rows) const {
        const int64_t n_units = (width() + kUnitColumns - 1) / kUnitColumns;
        // One row goes through in runs as long as they come, so that memory is read in order.
        const int64_t tile_rows = std::min(n_rows, kTileRows);
        const int64_t tile_units = n_rows == 1 ? n_units : std::min(n_units, kTileUnits);
        const int64_t tile = tile_rows * tile_units * kUnitColumns;
        float* tiles = queue.workspace.tiles.get(2 * tile * queue.device.pool.n_threads());
        const bool quantised = down_.quantised();
        const Activations hidden{
            quantised ? nullptr : queue.workspace.more_floats.get(n_rows * width()),
            quantised ? queue.workspace.more_activations.get(n_rows * (width() / kBlock)) : nullptr, width()};
        run_parts(queue.device.pool, n_rows, n_units, 1, [&](Range rows, Range units, uint32_t worker) {
            float* gate = tiles + 2 * tile * worker;
            for (int64_t unit = units.begin; unit < units.end; unit += tile_units) {
                const Range tile_of_units{unit, std::min(units.end, unit + tile_units)};
                for (int64_t row = rows.begin; row < rows.end; row += tile_rows) {
                    const Range tile_of_rows{row, std::min(rows.end, row + tile_rows)};
                    make_tile(queue.device.kernels, in, tile_of_rows, tile_of_units, gate, gate + tile, hidden);
                }
            }
        });
        return hidden;
    }

    void make_tile(const Kernels& kernels, const Activations& in, Range rows, Range units, float* gate, float* up,
                   const Activations& hidden) const {
        const Range panels{units.begin * kUnitPanels, std::min(units.end * kUnitPanels, gate_up_.n_panels(kGate))};
        const int64_t column = units.begin * kUnitColumns;
        const int64_t n_columns = std::min(units.end * kUnitColumns, width()) - column;
        const int64_t stride = units.size() * kUnitColumns;
        gate_up_.multiply(kernels, in, kGate, rows, panels, gate, stride, false);
        gate_up_.multiply(kernels, in, kUp, rows, panels, up, stride, false);
        for (int64_t i = 0; i < rows.size(); ++i) {
            const float* from = gate + i * stride;
            const int64_t row = rows.begin + i;
            if (hidden.blocks == nullptr) {
                kernels.swiglu(from, up + i * stride, const_cast<float*>(hidden.x) + row * width() + column, n_columns);
            } else {
                kernels.swiglu(from, up + i * stride, gate + i * stride, n_columns);
                kernels.quantise_row(from, n_columns,
                                     const_cast<ActivationBlock*>(hidden.blocks) + (row * width() + column) / kBlock);
            }
        }
    }

    const Norm norm_;
    const LinearWeights gate_up_;
    const LinearWeights down_;
};

enum Constant : uint32_t { kNorm, kFirstWeight, kDown = kFirstWeight + 2, kConstants };

uint64_t check(const Device&, const Request& request) {
    const auto& attributes = request.attributes<kvp_feed_forward_attributes>();
    request.expect_constants(kConstants);
    const bool exact = attributes.exact_f32 != 0;
    const uint64_t bytes = LinearWeights::check(request, kFirstWeight, kDown, exact) +
                           LinearWeights::check(request, kDown, kConstants, exact);
    const Weights gate = weights_of(request.constant(kFirstWeight), "the gate's weight");
    const Weights up = weights_of(request.constant(kFirstWeight + 1), "the up weight");
    const Weights down = weights_of(request.constant(kDown), "the down weight");
    const Norm norm(request.constant(kNorm), attributes.epsilon);
    if (up.rows != gate.rows || down.columns != gate.rows || down.rows != gate.columns ||
        static_cast<int64_t>(norm.weight.size()) != gate.columns) {
        invalid("the norm and the weights of the feed-forward layer do not fit each other");
    }
    return bytes;
}

std::unique_ptr<kvp_plan> prepare(Device& device, const Request& request) {
    const auto& attributes = request.attributes<kvp_feed_forward_attributes>();
    const bool exact = attributes.exact_f32 != 0;
    return std::make_unique<FeedForward>(Norm(request.constant(kNorm), attributes.epsilon),
                                         LinearWeights(request, kFirstWeight, kDown, exact, device.pool),
                                         LinearWeights(request, kDown, kConstants, exact, device.pool));
}

}  // namespace

const Operation kFeedForward = {"kvp.feed_forward/1", check, prepare};

}  // namespace kvplane::cpu

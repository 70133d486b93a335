// Everything of one level, after its `Level`: included once by each file of a level.
#include "kernels/attention-inl.h"
#include "kernels/elementwise-inl.h"
#include "kernels/k_panels-inl.h"
#include "kernels/multiply-inl.h"
#include "kernels/panels-inl.h"
#include "kernels/prefill_attention-inl.h"

namespace kvplane::cpu {
namespace {

constexpr Kernels kTable = {
    {multiply_panels<PanelFormat::F32>, multiply_panels<PanelFormat::F16>, multiply_panels<PanelFormat::BF16>,
     multiply_panels<PanelFormat::Q8_0>, multiply_panels<PanelFormat::Q4_0>, multiply_panels<PanelFormat::Q4_1>,
     multiply_k_panels<PanelFormat::Q4_K>, multiply_k_panels<PanelFormat::Q5_K>, multiply_k_panels<PanelFormat::Q6_K>},
    quantise_row,
    multiply,
    score_rows,
    accumulate_rows,
    widen_rows,
    softmax_rows,
    softmax_columns,
    rms_norm,
    swiglu,
    rotate_halves,
    rotate_interleaved,
    to_f16,
    from_f16,
    maximum,
    shift_max,
    shift_add,
    scale_by,
    column_sums,
    count_at_least,
};

}  // namespace
}  // namespace kvplane::cpu

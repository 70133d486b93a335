// Everything of one level, after its `Level`: included once by each file of a level.
#include "kernels/attention-inl.h"
#include "kernels/elementwise-inl.h"
#include "kernels/keys-inl.h"
#include "kernels/multiply-inl.h"
#include "kernels/panels-inl.h"
#include "kernels/select-inl.h"

namespace kvplane::cpu {
namespace {

constexpr Kernels kTable = {
    {multiply_panels<PanelFormat::F32>, multiply_panels<PanelFormat::F16>, multiply_panels<PanelFormat::BF16>,
     multiply_panels<PanelFormat::Q8_0>, multiply_panels<PanelFormat::Q4_0>, multiply_panels<PanelFormat::Q4_1>},
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
    shift_add,
    column_sums,
    {pack_keys<KeyFormat::F32>, pack_keys<KeyFormat::F16>, pack_keys<KeyFormat::I8>, pack_keys<KeyFormat::I4>},
    split_query,
    {scan_keys<KeyFormat::F32>, scan_keys<KeyFormat::F16>, scan_keys<KeyFormat::I8>, scan_keys<KeyFormat::I4>},
    combine_scores,
    count_near,
    select_largest,
    logarithms,
};

}  // namespace
}  // namespace kvplane::cpu

// Everything of one level, after its `Level`: included once by each file of a level.
#include "kernels/attention-inl.h"
#include "kernels/elementwise-inl.h"
#include "kernels/group_attention-inl.h"
#include "kernels/groups-inl.h"
#include "kernels/int8_attention-inl.h"
#include "kernels/k_panels-inl.h"
#include "kernels/keys-inl.h"
#include "kernels/multiply-inl.h"
#include "kernels/panels-inl.h"
#include "kernels/prefill_f32-inl.h"
#include "kernels/quantise-inl.h"
#include "kernels/select-inl.h"
#include "kernels/widen-inl.h"

namespace kvplane::cpu {
namespace {

constexpr PrefillKernels kPrefillF32 = {pack_queries<ArithmeticF32>, pack_rows_f32, attend_rows<ArithmeticF32>,
                                        unpack_result};

constexpr DecodeKernels kDecodeF32 = {pack_f32_queries, score_packed<float>, online_softmax<exponential_f32>,
                                      accumulate_rows<float>};
constexpr DecodeKernels kDecodeF16 = {pack_f32_queries, score_packed<hwy::float16_t>, online_softmax<exponential_f32>,
                                      accumulate_rows<hwy::float16_t>};
constexpr DecodeKernels kDecodeI8 = {pack_int8_queries, score_int8_rows, online_softmax<exponential_f32>,
                                     accumulate_int8_rows};

template <RowType kType>
constexpr DecodeKernels kDecodeGroups = {pack_group_queries, score_group_rows<kType>, online_softmax<exponential_f32>,
                                         accumulate_group_rows<kType>};

constexpr Kernels kTable = {
    {multiply_panels<PanelFormat::F32>, multiply_panels<PanelFormat::F16>, multiply_panels<PanelFormat::BF16>,
     multiply_panels<PanelFormat::Q8_0>, multiply_panels<PanelFormat::Q4_0>, multiply_panels<PanelFormat::Q4_1>,
     multiply_k_panels<PanelFormat::Q4_K>, multiply_k_panels<PanelFormat::Q5_K>, multiply_k_panels<PanelFormat::Q6_K>},
    quantise_row,
    multiply,
    score_typed<float>,
    widen_rows,
    {kDecodeF32, kDecodeF16, kDecodeI8, {}, {}, {}},
    {kDecodeF32, kDecodeF16, kDecodeI8, {}, kDecodeGroups<RowType::I8Groups>, kDecodeGroups<RowType::I4Groups>},
    kPrefillF32,
    kPrefillF32,
    rms_norm,
    swiglu,
    rotate_halves,
    rotate_interleaved,
    to_int8,
    to_f16,
    to_bf16,
    to_groups,
    shift_add,
    column_sums,
    {pack_keys<KeyFormat::F32>, pack_keys<KeyFormat::F16>, pack_keys<KeyFormat::I8>, pack_keys<KeyFormat::I4>},
    split_query,
    {scan_keys<KeyFormat::F32>, scan_keys<KeyFormat::F16>, scan_keys<KeyFormat::I8>, scan_keys<KeyFormat::I4>},
    sum_of_exponentials,
    combine_scores,
    count_near,
    select_largest,
    part_maxima,
    logarithms,
};

}  // namespace
}  // namespace kvplane::cpu

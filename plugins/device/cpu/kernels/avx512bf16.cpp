// What AVX-512 with BF16 does in another way than avx512.cpp: vdpbf16ps is twice as fast as products of f32.
#include "kernels/includes.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

struct Level {
    static constexpr int64_t kRows = 16;
};

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();

#include "kernels/bf16_attention-inl.h"
#include "kernels/prefill_bf16-inl.h"

namespace kvplane::cpu {
namespace {

constexpr PrefillKernels kPrefill = {pack_queries<ArithmeticBF16>, pack_rows_bf16, attend_rows<ArithmeticBF16>,
                                     unpack_result};

constexpr DecodeKernels kDecode = {pack_bf16_queries, score_bf16_rows, online_softmax<exponential_bf16>,
                                   accumulate_bf16_rows};

}  // namespace

const PrefillKernels& prefill_avx512bf16() {
    return kPrefill;
}

const DecodeKernels& decode_avx512bf16() {
    return kDecode;
}
}  // namespace kvplane::cpu

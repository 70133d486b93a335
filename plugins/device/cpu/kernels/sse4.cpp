// SSE4.1, the lowest level that the plugin serves: the arithmetic of avx2.cpp on half the width.
#include "kernels/includes.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

struct Level {
    using Words = __m128i;  // 4 rows x 4 bytes
    static constexpr int64_t kRows = 4;
    static constexpr int64_t kTileRows = 4;
    static constexpr int64_t kMultiplyRows = 6;
    static constexpr int64_t kMultiplyVectors = 2;
    static constexpr int64_t kSingleRowVectors = 2;  // streams of weights when there is one row
    static constexpr int64_t kInt8Queries = 1;       // at once over I8 rows; sums of 8 vectors stay in registers
    static constexpr int64_t kPrefetchBytes = 256;

    static HWY_INLINE Words zero() { return _mm_setzero_si128(); }
    static HWY_INLINE Words set(int32_t x) { return _mm_set1_epi32(x); }
    static HWY_INLINE Words load(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
    static HWY_INLINE Words low_nibbles(Words w) { return _mm_and_si128(w, _mm_set1_epi8(15)); }
    static HWY_INLINE Words high_nibbles(Words w) { return low_nibbles(_mm_srli_epi16(w, 4)); }
    static HWY_INLINE Words widen(Words pairs) { return _mm_madd_epi16(pairs, _mm_set1_epi16(1)); }
    static HWY_INLINE Words start4(int32_t) { return zero(); }
    static HWY_INLINE Words dot4(Words sum, Words w, Words a) { return _mm_add_epi16(sum, _mm_maddubs_epi16(w, a)); }
    static HWY_INLINE Words finish4(Words sum, int32_t bias) { return _mm_add_epi32(widen(sum), set(bias)); }
    // Back to signed weights: 255 * 127 * 2 does not fit 16 bits. So there is no offset to take out.
    static HWY_INLINE Words start8(int32_t) { return zero(); }
    static HWY_INLINE Words dot8(Words sum, Words w, Words a) {
        const Words weight = _mm_xor_si128(w, _mm_set1_epi8(-128));
        return _mm_add_epi32(sum, widen(_mm_maddubs_epi16(_mm_abs_epi8(weight), _mm_sign_epi8(a, weight))));
    }
    // w in [0, 127]: 2 * 127 * 128 fits 16 bits.
    static HWY_INLINE Words dot7(Words sum, Words w, Words a) {
        return _mm_add_epi32(sum, widen(_mm_maddubs_epi16(w, a)));
    }
    // Two steps of weights of up to 6 bits: 4 * 63 * 127 fits 16 bits.
    static HWY_INLINE Words dot6(Words sum, Words w0, Words a0, Words w1, Words a1) {
        const Words pairs = _mm_add_epi16(_mm_maddubs_epi16(w0, a0), _mm_maddubs_epi16(w1, a1));
        return _mm_add_epi32(sum, widen(pairs));
    }
};

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();

#include "kernels/table-inl.h"

namespace kvplane::cpu {
const Kernels& kernels_sse4() {
    return kTable;
}
}  // namespace kvplane::cpu

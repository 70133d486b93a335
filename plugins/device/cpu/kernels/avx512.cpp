// AVX-512 F, BW, DQ, VL, CD with VNNI: vpdpbusd on 16 rows at once.
#include "kernels/includes.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

struct Level {
    using Words = __m512i;  // 16 rows x 4 bytes
    static constexpr int64_t kRows = 16;
    static constexpr int64_t kTileRows = 8;      // rows of activations a tile of the int8 kernel
    static constexpr int64_t kMultiplyRows = 6;  // tile of the f32 kernel
    static constexpr int64_t kMultiplyVectors = 4;
    static constexpr int64_t kSingleRowVectors = 2;  // streams of weights when there is one row
    static constexpr int64_t kInt8Queries = 3;       // at once over I8 rows; sums of 24 vectors stay in registers
    static constexpr int64_t kPrefetchBytes = 256;

    static HWY_INLINE Words zero() { return _mm512_setzero_si512(); }
    static HWY_INLINE Words set(int32_t x) { return _mm512_set1_epi32(x); }
    static HWY_INLINE Words load(const uint8_t* p) { return _mm512_loadu_si512(p); }
    static HWY_INLINE Words low_nibbles(Words w) { return _mm512_and_si512(w, _mm512_set1_epi8(15)); }
    static HWY_INLINE Words high_nibbles(Words w) { return low_nibbles(_mm512_srli_epi16(w, 4)); }
    static HWY_INLINE Words start4(int32_t bias) { return set(bias); }
    static HWY_INLINE Words dot4(Words sum, Words w, Words a) { return _mm512_dpbusd_epi32(sum, w, a); }
    static HWY_INLINE Words finish4(Words sum, int32_t) { return sum; }
    static HWY_INLINE Words start8(int32_t bias) { return set(bias); }
    static HWY_INLINE Words dot8(Words sum, Words w, Words a) { return _mm512_dpbusd_epi32(sum, w, a); }
    static HWY_INLINE Words dot7(Words sum, Words w, Words a) { return _mm512_dpbusd_epi32(sum, w, a); }
    // Two steps of weights of up to 6 bits.
    static HWY_INLINE Words dot6(Words sum, Words w0, Words a0, Words w1, Words a1) {
        return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, w0, a0), w1, a1);
    }
};

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();

#include "kernels/table-inl.h"

namespace kvplane::cpu {
const Kernels& kernels_avx512() {
    return kTable;
}
}  // namespace kvplane::cpu

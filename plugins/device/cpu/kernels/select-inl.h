// The largest of many scores. The maxima of small blocks give a bound that enough scores reach, what reaches it is packed
// together, and only among those the exact threshold is looked for.
#pragma once

#include "kernels/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvplane::cpu {
namespace {

// Integers in the order of floats; -0 counts as 0.
HWY_INLINE hn::Vec<D32> order_keys(F x) {
    const auto bits = hn::BitCast(kI32, hn::Add(x, hn::Zero(kF)));
    const hn::RebindToUnsigned<D32> words;
    const auto sign = hn::BroadcastSignBit(bits);
    return hn::Xor(bits, hn::BitCast(kI32, hn::ShiftRight<1>(hn::BitCast(words, sign))));
}

constexpr int32_t kLeastKey = INT32_MIN;

HWY_INLINE hn::Mask<D32> at_least(hn::Vec<D32> keys, hn::Vec<D32> threshold) {
    return hn::Not(hn::Lt(keys, threshold));
}

// Keys of x[0 .. kLanes), those from `valid` on the least.
HWY_INLINE hn::Vec<D32> some_keys(const float* x, int64_t valid) {
    alignas(64) float lanes[kLanes] = {};
    for (int64_t i = 0; i < valid; ++i) lanes[i] = x[i];
    const auto there = hn::FirstN(kI32, static_cast<size_t>(valid));
    return hn::IfThenElse(there, order_keys(load(lanes)), hn::Set(kI32, kLeastKey));
}

HWY_INLINE int64_t count_keys(const int32_t* keys, int64_t n, int32_t threshold) {
    const auto least = hn::Set(kI32, threshold);
    size_t count = 0;
    for (int64_t i = 0; i < n; i += kLanes) count += hn::CountTrue(kI32, at_least(hn::LoadU(kI32, keys + i), least));
    return static_cast<int64_t>(count);
}

// Keys least .. most.
struct KeyRange {
    int64_t least;
    int64_t most;
};

HWY_INLINE KeyRange range_of(hn::Vec<D32> least, hn::Vec<D32> most) {
    return {hn::GetLane(hn::MinOfLanes(kI32, least)), hn::GetLane(hn::MaxOfLanes(kI32, most))};
}

// A key that at least `count` of keys[n] reach, n a multiple of the lanes: the largest such key in the range, whose least
// one they reach, to within `error`, or one that just `count` reach, which needs fewer steps.
HWY_INLINE int32_t key_threshold(const int32_t* keys, int64_t n, int64_t count, KeyRange range, int64_t error) {
    int64_t reached = range.least;
    for (int64_t missed = range.most + 1; missed - reached > error;) {
        const int64_t middle = reached + (missed - reached) / 2;
        const int64_t n_reached = count_keys(keys, n, static_cast<int32_t>(middle));
        (n_reached >= count ? reached : missed) = middle;
        if (n_reached == count) break;
    }
    return static_cast<int32_t>(reached);
}

// A key that at least `count` of x[n] reach, and not many more; blocks[n + 2 kLanes] is scratch.
HWY_INLINE int32_t lower_bound(const float* x, int64_t n, int64_t count, int32_t* blocks) {
    const int64_t n_vectors = n / kLanes / (2 * (count / kLanes + 1));  // of a block: about twice as many as `count`
    if (n_vectors <= 1) return kLeastKey;                               // a quarter or more are wanted
    const int64_t block = n_vectors * kLanes;
    int64_t n_blocks = 0;
    auto lowest = hn::Set(kI32, INT32_MAX);
    auto highest = hn::Set(kI32, kLeastKey);
    for (int64_t begin = 0; begin < n; begin += block, n_blocks += kLanes) {
        auto most = hn::Set(kI32, kLeastKey);
        for (int64_t i = begin; i < begin + block && i < n; i += kLanes) {
            most = hn::Max(most, n - i >= kLanes ? order_keys(load(x + i)) : some_keys(x + i, n - i));
        }
        hn::StoreU(most, kI32, blocks + n_blocks);
        lowest = hn::Min(lowest, most);
        highest = hn::Max(highest, most);
    }
    constexpr int64_t kError = 1 << 16;  // of the last 16 bits of a float: good enough for a bound
    return key_threshold(blocks, n_blocks, count, range_of(lowest, highest), kError);
}

HWY_INLINE float maximum_of(const float* x, int64_t n) {
    F lanes = set(kNegativeInfinity);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) lanes = hn::Max(lanes, load(x + i));
    float maximum = hn::GetLane(hn::MaxOfLanes(kF, lanes));
    for (; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
    return maximum;
}

void part_maxima(const float* x, int64_t n, int64_t first, int64_t size, float* maxima) {
    for (int64_t begin = 0, next = first; begin < n; begin = next, next += size) {
        *maxima++ = maximum_of(x + begin, (next < n ? next : n) - begin);
    }
}

int64_t count_near(const float* x, int64_t n, float alpha, bool strict) {
    const float maximum = maximum_of(x, n);
    const F most = set(maximum);
    const F least = set(-alpha);
    size_t count = 0;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const F distance = hn::Sub(load(x + i), most);
        count += hn::CountTrue(kF, strict ? hn::Gt(distance, least) : hn::Ge(distance, least));
    }
    for (; i < n; ++i) {
        const float distance = x[i] - maximum;
        count += (strict ? distance > -alpha : distance >= -alpha) ? 1 : 0;
    }
    return static_cast<int64_t>(count);
}

void select_largest(const float* x, int64_t n, int64_t count, int32_t* scratch, int32_t* places) {
    int32_t* keys = scratch;
    int32_t* found = keys + n + 2 * kLanes;
    int32_t* blocks = found + n + 2 * kLanes;
    const auto bound = hn::Set(kI32, lower_bound(x, n, count, blocks));
    const auto lanes = hn::Iota(kI32, 0);
    auto lowest = hn::Set(kI32, INT32_MAX);
    auto highest = hn::Set(kI32, kLeastKey);
    int64_t n_found = 0;
    for (int64_t i = 0; i < n; i += kLanes) {
        const auto key = n - i >= kLanes ? order_keys(load(x + i)) : some_keys(x + i, n - i);
        auto reached = at_least(key, bound);
        if (n - i < kLanes) reached = hn::And(reached, hn::FirstN(kI32, static_cast<size_t>(n - i)));
        const size_t here = hn::CountTrue(kI32, reached);
        if (here == 0) continue;
        lowest = hn::Min(lowest, hn::IfThenElse(reached, key, lowest));
        highest = hn::Max(highest, hn::IfThenElse(reached, key, highest));
        hn::StoreU(hn::Compress(key, reached), kI32, keys + n_found);
        hn::StoreU(hn::Compress(hn::Add(lanes, hn::Set(kI32, static_cast<int32_t>(i))), reached), kI32,
                   found + n_found);
        n_found += static_cast<int64_t>(here);
    }
    hn::StoreU(hn::Set(kI32, kLeastKey), kI32, keys + n_found);
    const int64_t whole = (n_found + kLanes - 1) / kLanes * kLanes;
    const int32_t threshold = key_threshold(keys, whole, count, range_of(lowest, highest), 1);
    if (count_keys(keys, whole, threshold) == count) {
        const auto least = hn::Set(kI32, threshold);
        int64_t n_chosen = 0;
        for (int64_t i = 0; i < n_found; i += kLanes) {
            const auto chosen = at_least(hn::LoadU(kI32, keys + i), least);
            hn::StoreU(hn::Compress(hn::LoadU(kI32, found + i), chosen), kI32, found + n_chosen);
            n_chosen += static_cast<int64_t>(hn::CountTrue(kI32, chosen));
        }
        memcpy(places, found, static_cast<size_t>(count) * sizeof(int32_t));
        return;
    }
    int64_t ties = count - (threshold == INT32_MAX ? 0 : count_keys(keys, whole, threshold + 1));
    for (int64_t i = 0; i < n_found; ++i) {
        if (keys[i] < threshold || (keys[i] == threshold && ties-- <= 0)) continue;
        *places++ = found[i];
    }
}

// x[0 .. valid), then zeros.
HWY_INLINE hn::Vec<D32> some_integers(const int32_t* x, int64_t valid) {
    alignas(64) int32_t lanes[kLanes] = {};
    for (int64_t i = 0; i < valid; ++i) lanes[i] = x[i];
    return hn::Load(kI32, lanes);
}

void logarithms(const int32_t* x, float* out, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
        const F value = hn::ConvertTo(kF, n - i >= kLanes ? hn::LoadU(kI32, x + i) : some_integers(x + i, n - i));
        const auto some = hn::Gt(value, hn::Zero(kF));
        const F logarithm = hn::Log(kF, hn::IfThenElse(some, value, set(1.0f)));
        store_columns(hn::IfThenElse(some, logarithm, set(kNegativeInfinity)), out + i, n - i, false);
    }
}

}  // namespace
}  // namespace kvplane::cpu
HWY_AFTER_NAMESPACE();

#include <cstring>
#include <limits>

#include "cached_sequence.h"

namespace kvplane::test {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// One entry of a softmax: a row K||V, and what is added to its score.
struct Entry {
    const double* row;
    double bias;
    std::vector<double> virtual_row = {};  // what `row` shows of one that is not cached
};

struct Expected {
    std::vector<double> out;
    double lse = kNone;
    double magnitude = 0;  // most that the terms of a score add up to without their signs
    double largest = 0;    // value
};

// The nearest bf16, of two equally near the even one, or the one farther from zero: seven of the 52 bits stay.
enum class Ties { even, away };
template <Ties ties>
double nearest_bf16(double x) {
    constexpr uint64_t kLowest = uint64_t{1} << 45;
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof x);
    bits += kLowest / 2 - (ties == Ties::even && (bits & kLowest) == 0 ? 1 : 0);
    bits &= ~(kLowest - 1);
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
using Rounding = double (*)(double);
const Rounding kExact = nullptr;
const Rounding kTiesToEven = nearest_bf16<Ties::even>;
const Rounding kTiesAway = nearest_bf16<Ties::away>;

// With a rounding, of operands that were rounded to bf16 first: cached rows by it, queries to even after they took the
// scale in, to base 2.
Expected attend(const float* q, const std::vector<Entry>& entries, int64_t d, float scale, Rounding rounding) {
    Expected result{std::vector<double>(static_cast<size_t>(d)), kNone, 0, 0};
    std::vector<double> query;
    for (int64_t i = 0; i < d; ++i) {
        query.push_back(rounding != kExact ? kTiesToEven(q[i] * (scale * 1.44269504f)) * std::log(2.0)
                                           : q[i] * static_cast<double>(scale));
    }
    const auto rounded = [&](double x) { return rounding != kExact ? rounding(x) : x; };
    std::vector<double> scores;
    double most = kNone;
    for (const Entry& entry : entries) {
        double score = entry.bias;
        double magnitude = 0;
        for (int64_t i = 0; i < d; ++i) {
            const double term = query[static_cast<size_t>(i)] * rounded(entry.row[i]);
            score += term;
            magnitude += std::abs(term);
        }
        result.magnitude = std::max(result.magnitude, magnitude);
        scores.push_back(score);
        most = std::max(most, score);
    }
    if (most == kNone) return result;
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (size_t j = 0; j < entries.size(); ++j) {
        for (int64_t i = 0; i < d; ++i) {
            const double value = rounded(entries[j].row[d + i]);
            result.out[static_cast<size_t>(i)] += scores[j] / sum * value;
            result.largest = std::max(result.largest, std::abs(value));
        }
    }
    result.lse = most + std::log(sum);
    return result;
}

class CpuAttention : public CpuDevice {
protected:
    struct Sequence {
        CachedSequence* cached;
        int64_t n_kv_heads;
        int64_t row_begin;
        int64_t n_rows;
        int64_t token_begin;
        std::vector<kvp_segment> segments;
        bool merge = false;
    };

    // The entries that the query at cached row `position` of KV head g sees, by the text of ops.h.
    static std::vector<Entry> entries_of(const Sequence& s, int64_t g, int64_t position, int64_t d) {
        std::vector<Entry> entries;
        for (const kvp_segment& segment : s.segments) {
            const bool causal = (segment.flags & KVP_SEGMENT_CAUSAL) != 0;
            const auto add = [&](int64_t token) {
                if (!causal || token <= position) entries.push_back({s.cached->row(g, token), 0});
            };
            const auto* index =
                reinterpret_cast<const int32_t*>(segment.index) + static_cast<uint64_t>(g) * segment.index_stride;
            const auto* count = reinterpret_cast<const int32_t*>(segment.count);
            if (segment.form == KVP_SEGMENT_RANGE) {
                for (int64_t token = segment.begin; token < segment.end; ++token) {
                    if (!causal || token <= position) add(token);
                }
            } else if (segment.form == KVP_SEGMENT_ROW_LIST) {
                for (int32_t i = 0; i < count[g]; ++i) add(index[i]);
            } else if (segment.form == KVP_SEGMENT_PAGE_LIST) {
                for (int32_t i = 0; i < count[g]; ++i) {
                    for (int64_t token = index[i] * int64_t{segment.page_tokens};
                         token < (index[i] + 1) * int64_t{segment.page_tokens}; ++token) {
                        if (segment.end == 0 || token < segment.end) add(token);
                    }
                }
            } else {
                for (uint32_t i = 0; i < segment.virtual_count; ++i) {
                    const auto at = static_cast<size_t>(g) * segment.virtual_stride + i;
                    const double bias =
                        segment.virtual_bias != 0 ? reinterpret_cast<const float*>(segment.virtual_bias)[at] : 0.0;
                    if (bias == kNone) continue;
                    std::vector<double> row;
                    for (int64_t c = 0; c < 2 * d; ++c) {
                        const auto element = at * 2 * static_cast<size_t>(d) + static_cast<size_t>(c);
                        row.push_back(segment.virtual_type == KVP_TYPE_F16
                                          ? half_value(reinterpret_cast<const uint16_t*>(segment.virtual_rows)[element])
                                          : reinterpret_cast<const float*>(segment.virtual_rows)[element]);
                    }
                    const double* const values = row.data();
                    entries.push_back({values, bias, std::move(row)});
                }
            }
        }
        return entries;
    }

    kvp_status run(const std::vector<Sequence>& sequences, int64_t n_heads, int64_t d, const std::vector<float>& q,
                   std::vector<float>& out, std::vector<float>& lse) const {
        std::vector<std::vector<const kvp_segment*>> segments;
        std::vector<kvp_attention_item> items;
        std::vector<const kvp_attention_item*> pointers;
        for (const Sequence& s : sequences) {
            segments.emplace_back();
            for (const kvp_segment& segment : s.segments) segments.back().push_back(&segment);
        }
        for (size_t i = 0; i < sequences.size(); ++i) {
            auto item = structure<kvp_attention_item>();
            item.rows = sequences[i].cached->rows();
            item.row_begin = sequences[i].row_begin;
            item.n_rows = sequences[i].n_rows;
            item.token_begin = sequences[i].token_begin;
            item.segments = segments[i].data();
            item.n_segments = static_cast<uint32_t>(segments[i].size());
            item.merge = sequences[i].merge;
            items.push_back(item);
        }
        for (const auto& item : items) pointers.push_back(&item);
        auto arguments = structure<kvp_attention_arguments>();
        arguments.items = pointers.data();
        arguments.n_items = static_cast<uint32_t>(pointers.size());
        arguments.n_heads = static_cast<uint32_t>(n_heads);
        arguments.scale = static_cast<float>(1 / std::sqrt(d));
        const auto rows = static_cast<int64_t>(q.size()) / (n_heads * d);
        return device().try_run(device().prepare("kvp.attention/1"),
                                {Tensor::f32(q, {rows, n_heads * d}), Tensor::f32(out, {rows, n_heads * d}),
                                 Tensor::f32(lse, {rows, n_heads})},
                                &arguments);
    }

    void check(const std::vector<Sequence>& sequences, int64_t n_heads, int64_t d) const {
        int64_t rows = 0;
        for (const Sequence& s : sequences) rows = std::max(rows, s.row_begin + s.n_rows);
        const auto q = random_floats(static_cast<size_t>(rows * n_heads * d), 77, 2.0f);
        std::vector<float> out(q.size(), 5.0f);
        std::vector<float> lse(static_cast<size_t>(rows * n_heads), 5.0f);
        ASSERT_EQ(run(sequences, n_heads, d, q, out, lse), KVP_OK) << device().error();
        for (const Sequence& s : sequences) {
            for (int64_t row = 0; row < s.n_rows; ++row) {
                for (int64_t head = 0; head < n_heads; ++head) expect_query(s, row, head, n_heads, d, q, out, lse);
            }
        }
    }

    // Whether this level may multiply over these rows in bf16. It takes few queries, such as a last tile may have, in
    // another way than many: keys and values with ties away from zero.
    static bool may_round(const Sequence& s) {
        return std::get<0>(GetParam()) == "avx512bf16" && s.cached->rows()->type != KVP_TYPE_F32;
    }

    static void expect_query(const Sequence& s, int64_t row, int64_t head, int64_t n_heads, int64_t d,
                             const std::vector<float>& q, const std::vector<float>& out,
                             const std::vector<float>& lse) {
        const int64_t at = (s.row_begin + row) * n_heads + head;
        const auto entries = entries_of(s, head / (n_heads / s.n_kv_heads), s.token_begin + row, d);
        const auto scale = static_cast<float>(1 / std::sqrt(d));
        const Expected exact = attend(q.data() + at * d, entries, d, scale, kExact);
        // Few queries over int8 rows keep 15 bits of a query and 14 of a weight.
        const uint32_t type = s.cached->rows()->type;
        const bool int8 = type == KVP_TYPE_I8 || type == KVP_TYPE_I8_GROUPS || type == KVP_TYPE_I4_GROUPS;
        const double exact_error = int8 ? 1e-3 : 3e-5;
        const auto lse_error = [&](const Expected& e) {
            return 2e-5 + std::ldexp(e.magnitude, -24) * static_cast<double>(int8 ? 1 << 10 : d + 8);
        };
        const auto lse_misses = [&](const Expected& e) {
            const double difference = std::abs(lse[static_cast<size_t>(at)] - e.lse);
            return difference / lse_error(e);
        };
        Expected expected = exact;
        bool bf16 = false;
        const auto is_exact = [&] {
            for (int64_t i = 0; i < d; ++i) {
                const auto difference = out[static_cast<size_t>(at * d + i)] - exact.out[static_cast<size_t>(i)];
                if (!(std::abs(difference) <= exact_error)) return false;
            }
            return exact.lse == kNone || lse_misses(exact) <= 1;
        };
        if (may_round(s) && !is_exact()) {
            bf16 = true;
            expected = attend(q.data() + at * d, entries, d, scale, kTiesToEven);
            const Expected away = attend(q.data() + at * d, entries, d, scale, kTiesAway);
            if (lse_misses(away) < lse_misses(expected)) expected = away;
        }
        // A weight is a power that is off by 8e-5 and then rounded by at most 2^-8. The sum is that of the rounded
        // weights, so an output is off by twice that at most.
        const double weight_error = bf16 ? std::ldexp(1, -8) + 1e-4 : 0;
        if (expected.lse == kNone) {
            ASSERT_EQ(lse[static_cast<size_t>(at)], kNone);
        } else {
            ASSERT_NEAR(lse[static_cast<size_t>(at)], expected.lse, lse_error(expected) + weight_error)
                << "row " << row << " head " << head;
        }
        for (int64_t i = 0; i < d; ++i) {
            ASSERT_NEAR(out[static_cast<size_t>(at * d + i)], expected.out[static_cast<size_t>(i)],
                        exact_error + 2 * weight_error * expected.largest)
                << "row " << row << " head " << head;
        }
    }

    static kvp_segment range(int64_t begin, int64_t end, bool causal = true) {
        auto segment = structure<kvp_segment>();
        segment.form = KVP_SEGMENT_RANGE;
        if (causal) segment.flags = KVP_SEGMENT_CAUSAL;
        segment.begin = begin;
        segment.end = end;
        return segment;
    }
    static kvp_segment list(uint32_t form, std::vector<int32_t>& index, std::vector<int32_t>& count,
                            uint32_t page_tokens = 0) {
        auto segment = structure<kvp_segment>();
        segment.form = form;
        segment.index = address_of(index);
        segment.count = address_of(count);
        segment.index_stride = index.size() / count.size();
        segment.max_count = static_cast<uint32_t>(segment.index_stride);
        segment.page_tokens = page_tokens;
        return segment;
    }
};

TEST_P(CpuAttention, attends_to_a_causal_range_at_every_head_shape) {
    for (const int64_t d : {16, 32, 64, 80, 128}) {
        for (const int64_t group : {1, 2, 3, 8}) {
            for (const int64_t n_rows : {1, 2, 17}) {
                for (const int64_t length : {17, 131}) {
                    // Two types of rows each, so that every type meets shapes of every kind.
                    for (auto i = static_cast<size_t>(d / 16 + group + n_rows) % 3; i < std::size(kRowTypes); i += 3) {
                        CachedSequence cached(length, 2, d, group % 2 == 0 ? 4 : 16, kRowTypes[i], 3);
                        cached.fill(4);
                        check({{&cached, 2, 0, n_rows, length - n_rows, {range(0, length)}}}, 2 * group, d);
                    }
                }
            }
        }
    }
}

TEST_P(CpuAttention, attends_at_every_length) {
    for (const uint32_t type : kRowTypes) {
        for (int64_t length = 1; length <= 300; length += length < 70 ? 1 : 23) {
            CachedSequence cached(length, 1, 32, 16, type, 5);
            cached.fill(6);
            check({{&cached, 1, 0, 1, length - 1, {range(0, length)}}}, 3, 32);
        }
    }
}

TEST_P(CpuAttention, splits_a_long_decode_over_threads_and_merges) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence cached(1900, 1, 16, 16, type, 7);
        cached.fill(8);
        check({{&cached, 1, 0, 1, 1899, {range(0, 1900)}}}, 3, 16);
        check({{&cached, 1, 0, 3, 1897, {range(0, 7), range(100, 1900)}}}, 3, 16);
    }
}

TEST_P(CpuAttention, splits_a_short_chunk_over_threads_and_merges) {
    CachedSequence cached(900, 1, 32, 16, KVP_TYPE_F16, 42);
    cached.fill(43);
    check({{&cached, 1, 0, 14, 886, {range(0, 900)}}}, 3, 32);
}

TEST_P(CpuAttention, prefills_in_tiles) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence cached(150, 2, 16, 4, type, 9);
        cached.fill(10);
        check({{&cached, 2, 0, 150, 0, {range(0, 150)}}}, 6, 16);
        check({{&cached, 2, 0, 40, 110, {range(0, 150, false)}}}, 2, 16);
    }
}

TEST_P(CpuAttention, prefills_tiles_of_every_width) {
    for (const uint32_t type : kRowTypes) {
        for (const auto& [n_rows, group, d] :
             std::initializer_list<std::tuple<int64_t, int64_t, int64_t>>{{1, 8, 64},
                                                                          {3, 5, 16},
                                                                          {9, 1, 48},
                                                                          {15, 1, 32},
                                                                          {16, 1, 80},
                                                                          {11, 3, 64},
                                                                          {33, 1, 64},
                                                                          {16, 3, 64},
                                                                          {17, 3, 64},
                                                                          {7, 7, 112},
                                                                          {65, 2, 256},
                                                                          {130, 4, 64}}) {
            CachedSequence cached(90 + n_rows, 2, d, 16, type, 35);
            cached.fill(36);
            check({{&cached, 2, 0, n_rows, 90, {range(3, 71, false), range(71, 90 + n_rows)}}}, 2 * group, d);
        }
    }
}

TEST_P(CpuAttention, raises_the_reference_of_its_weights_when_scores_grow) {
    // Far above what the first rows have: by more than the weights' range in f32, in steps and at once, also where the
    // row is hidden from some queries.
    CachedSequence cached(200, 1, 32, 16, KVP_TYPE_F16, 37);
    cached.fill(38);
    for (int64_t i = 0; i < 32; ++i) {
        for (int64_t token = 70; token < 200; token += 13) {
            cached.set(0, token, i, static_cast<float>(cached.get(0, token, i)) * static_cast<float>(token));
        }
    }
    check({{&cached, 1, 0, 60, 140, {range(0, 200)}}}, 2, 32);
    for (int64_t i = 0; i < 32; ++i) cached.set(0, 100, i, i % 2 == 0 ? 6e4f : -6e4f);
    check({{&cached, 1, 0, 60, 140, {range(0, 200)}}}, 2, 32);
    check({{&cached, 1, 0, 120, 80, {range(0, 200)}}}, 2, 32);
}

TEST_P(CpuAttention, reads_lists_of_rows_and_pages_a_head) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence cached(200, 2, 32, 16, type, 11);
        cached.fill(12);
        std::vector<int32_t> rows = {0, 3, 4, 5, 90, 91, 150, 151, 2, 17, 33, 49, -1, -1, -1, -1};
        std::vector<int32_t> row_count = {8, 4};
        std::vector<int32_t> pages = {0, 5, 12, 1, 2, -1};
        std::vector<int32_t> page_count = {3, 2};
        auto paged = list(KVP_SEGMENT_PAGE_LIST, pages, page_count, 16);
        paged.end = 200;  // the last page is not full
        check({{&cached, 2, 0, 1, 199, {list(KVP_SEGMENT_ROW_LIST, rows, row_count), range(180, 200)}}}, 6, 32);
        check({{&cached, 2, 0, 1, 199, {paged}}}, 6, 32);
        check({{&cached, 2, 0, 9, 191, {paged, list(KVP_SEGMENT_ROW_LIST, rows, row_count)}}}, 6, 32);
    }
}

TEST_P(CpuAttention, hides_listed_rows_after_the_query_when_causal) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence cached(64, 1, 16, 16, type, 13);
        cached.fill(14);
        std::vector<int32_t> rows = {1, 9, 20, 40, 41, 42, 60};
        std::vector<int32_t> count = {7};
        auto segment = list(KVP_SEGMENT_ROW_LIST, rows, count);
        segment.flags = KVP_SEGMENT_CAUSAL;
        check({{&cached, 1, 0, 30, 20, {segment}}}, 2, 16);
    }
}

TEST_P(CpuAttention, adds_virtual_rows_with_bias_and_never_reads_those_left_out) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence cached(20, 2, 16, 4, type, 15);
        cached.fill(16);
        auto virtual_rows = random_floats(2 * 6 * 32, 17);
        std::vector<float> bias = {0.0f, 4.0f, -INFINITY, 1.5f, 2.0f, 9.0f, -INFINITY, -1.0f, -2.0f, 0.5f, 2.0f, 9.0f};
        for (size_t i = 0; i < 32; ++i) virtual_rows[2 * 32 + i] = NAN;
        auto segment = structure<kvp_segment>();
        segment.form = KVP_SEGMENT_VIRTUAL;
        segment.virtual_rows = address_of(virtual_rows);
        segment.virtual_bias = address_of(bias);
        segment.virtual_stride = 6;
        segment.virtual_count = 5;
        segment.virtual_type = KVP_TYPE_F32;
        check({{&cached, 2, 0, 1, 19, {range(10, 20), segment}}}, 6, 16);
        check({{&cached, 2, 0, 12, 8, {segment, range(10, 20)}}}, 2, 16);
        check({{&cached, 2, 0, 12, 8, {segment, range(10, 20)}}}, 6, 16);
        std::vector<uint16_t> halves;
        for (const float x : virtual_rows) halves.push_back(std::isnan(x) ? uint16_t{0x7E00} : nearest_half(x));
        segment.virtual_rows = address_of(halves);
        segment.virtual_type = KVP_TYPE_F16;
        check({{&cached, 2, 0, 1, 19, {segment}}}, 6, 16);
    }
}

TEST_P(CpuAttention, gives_zero_where_nothing_is_seen) {
    CachedSequence cached(20, 1, 16, 4, KVP_TYPE_F16, 18);
    cached.fill(19);
    std::vector<float> bias(3, -INFINITY);
    auto virtual_rows = random_floats(3 * 32, 20);
    auto hidden = structure<kvp_segment>();
    hidden.form = KVP_SEGMENT_VIRTUAL;
    hidden.virtual_rows = address_of(virtual_rows);
    hidden.virtual_bias = address_of(bias);
    hidden.virtual_stride = hidden.virtual_count = 3;
    hidden.virtual_type = KVP_TYPE_F32;
    check({{&cached, 1, 0, 1, 5, {}}}, 2, 16);
    check({{&cached, 1, 0, 1, 5, {hidden, range(4, 4)}}}, 2, 16);
    check({{&cached, 1, 0, 16, 0, {range(8, 20), hidden}}}, 2, 16);  // the first 8 queries see nothing
    std::vector<int32_t> none = {7};
    std::vector<int32_t> count = {0};
    check({{&cached, 1, 0, 1, 5, {list(KVP_SEGMENT_ROW_LIST, none, count)}}}, 2, 16);
}

TEST_P(CpuAttention, serves_several_sequences_of_unequal_length) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence a(7, 1, 64, 16, type, 21);
        CachedSequence b(300, 1, 64, 16, type, 22);
        CachedSequence c(40, 1, 64, 16, type, 23);
        a.fill(24);
        b.fill(25);
        c.fill(26);
        check({{&a, 1, 0, 1, 6, {range(0, 7)}}, {&b, 1, 1, 1, 299, {range(0, 300)}}, {&c, 1, 2, 33, 7, {range(0, 40)}}},
              3, 64);
    }
}

TEST_P(CpuAttention, merges_with_an_earlier_result) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence cached(90, 2, 32, 16, type, 27);
        cached.fill(28);
        const auto q = random_floats(2 * 6 * 32, 29);
        for (const int64_t cut : {0, 30, 90}) {
            std::vector<float> out(q.size(), NAN);
            std::vector<float> lse(2 * 6, NAN);
            ASSERT_EQ(run({{&cached, 2, 0, 2, 88, {range(0, cut, false)}}}, 6, 32, q, out, lse), KVP_OK);
            ASSERT_EQ(run({{&cached, 2, 0, 2, 88, {range(cut, 90, false)}, true}}, 6, 32, q, out, lse), KVP_OK);
            const Sequence whole{&cached, 2, 0, 2, 88, {range(0, 90, false)}};
            for (int64_t row = 0; row < 2; ++row) {
                for (int64_t head = 0; head < 6; ++head) expect_query(whole, row, head, 6, 32, q, out, lse);
            }
        }
    }
}

TEST_P(CpuAttention, merges_a_prefill_with_an_earlier_result) {
    CachedSequence cached(130, 2, 64, 16, KVP_TYPE_F16, 39);
    cached.fill(40);
    const auto q = random_floats(50 * 6 * 64, 41);
    std::vector<float> out(q.size(), NAN);
    std::vector<float> lse(50 * 6, NAN);
    ASSERT_EQ(run({{&cached, 2, 0, 50, 80, {range(0, 70)}}}, 6, 64, q, out, lse), KVP_OK);
    ASSERT_EQ(run({{&cached, 2, 0, 50, 80, {range(70, 130)}, true}}, 6, 64, q, out, lse), KVP_OK);
    const Sequence whole{&cached, 2, 0, 50, 80, {range(0, 130)}};
    for (int64_t row = 0; row < 50; ++row) {
        for (int64_t head = 0; head < 6; ++head) expect_query(whole, row, head, 6, 64, q, out, lse);
    }
}

TEST_P(CpuAttention, survives_large_scores) {
    CachedSequence cached(200, 1, 16, 16, KVP_TYPE_F16, 30);
    cached.fill(31);
    for (int64_t i = 0; i < 16; ++i) cached.set(0, 150, i, 3e3f);
    check({{&cached, 1, 0, 1, 199, {range(0, 200)}}}, 1, 16);
    check({{&cached, 1, 0, 20, 180, {range(0, 200)}}}, 1, 16);
}

TEST_P(CpuAttention, refuses_rows_that_are_not_there) {
    CachedSequence cached(64, 2, 16, 16, KVP_TYPE_F16, 32);
    cached.fill(33);
    const auto q = random_floats(2 * 16, 34);
    std::vector<float> out(q.size());
    std::vector<float> lse(2);
    EXPECT_EQ(run({{&cached, 2, 0, 1, 63, {range(0, 65, false)}}}, 2, 16, q, out, lse), KVP_ERROR_INVALID);
    EXPECT_NE(device().error().find("cached row 64"), std::string::npos) << device().error();
    cached.groups()[6] = 0;  // KV head 1, rows 32 to 47
    EXPECT_EQ(run({{&cached, 2, 0, 1, 63, {range(0, 64)}}}, 2, 16, q, out, lse), KVP_ERROR_INVALID);
    EXPECT_NE(device().error().find("cached row 32"), std::string::npos) << device().error();
    std::vector<int32_t> index = {-5, 3};
    std::vector<int32_t> count = {1, 1};
    const auto segment = list(KVP_SEGMENT_ROW_LIST, index, count);
    EXPECT_EQ(run({{&cached, 2, 0, 1, 63, {segment}}}, 2, 16, q, out, lse), KVP_OK);  // before the first row: not a row
    count[0] = 2;
    EXPECT_EQ(run({{&cached, 2, 0, 1, 63, {segment}}}, 2, 16, q, out, lse), KVP_ERROR_INVALID);
}

KVPLANE_ALL_LEVELS(CpuAttention);

}  // namespace
}  // namespace kvplane::test

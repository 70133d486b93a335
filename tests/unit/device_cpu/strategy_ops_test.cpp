// The ops of quest, window, snapkv and h2o, against the text of ops.h in doubles.
#include <limits>

#include "cached_sequence.h"

namespace kvplane::test {
namespace {

class CpuStrategyOps : public CpuDevice {};

constexpr int64_t kHeads = 6, kKvHeads = 2, kGroup = 3;

TEST_P(CpuStrategyOps, bounds_of_a_page_are_those_of_its_rows_however_they_come) {
    for (const uint32_t type : kRowTypes) {
        constexpr int64_t kTokens = 75, d = 32, kPage = 16, kCapacity = 6;
        CachedSequence sequence(kTokens, kKvHeads, d, 16, type, 3);
        sequence.fill(4);
        std::vector<float> bounds(kKvHeads * kCapacity * 2 * d, 99.0f);
        auto a = structure<kvp_page_bounds_arguments>();
        a.rows = sequence.rows();
        a.bounds = address_of(bounds);
        a.capacity = kCapacity;
        a.page_tokens = kPage;
        for (const int64_t end : {1, 15, 16, 17, 48, 75}) {
            a.token_begin = a.token_end;
            a.token_end = end;
            device().run("kvp.page_bounds/1", {}, &a);
        }
        for (int64_t head = 0; head < kKvHeads; ++head) {
            for (int64_t page = 0; page < 5; ++page) {
                for (int64_t i = 0; i < d; ++i) {
                    double greatest = -1e9, least = 1e9;
                    for (int64_t token = page * kPage; token < std::min(kTokens, (page + 1) * kPage); ++token) {
                        greatest = std::max(greatest, sequence.get(head, token, i));
                        least = std::min(least, sequence.get(head, token, i));
                    }
                    const auto at = static_cast<size_t>(((head * kCapacity + page) * 2) * d + i);
                    ASSERT_NEAR(bounds[at], greatest, 1e-6) << "type " << type << " page " << page;
                    ASSERT_NEAR(bounds[at + d], least, 1e-6);
                }
            }
        }
        EXPECT_EQ(bounds[5 * 2 * d], 99.0f);  // a page without rows
    }
}

TEST_P(CpuStrategyOps, a_pages_score_is_the_best_that_its_bounds_allow) {
    for (const int64_t n_pages : {1, 63, 64, 130, 300}) {
        constexpr int64_t d = 48;
        const int64_t capacity = n_pages + 3;
        auto bounds = random_floats(static_cast<size_t>(kKvHeads * capacity * 2 * d), 5);
        for (size_t page = 0; page < bounds.size(); page += 2 * d) {
            for (size_t i = page; i < page + d; ++i) {
                if (bounds[i] < bounds[i + d]) std::swap(bounds[i], bounds[i + d]);
            }
        }
        const auto q = random_floats(2 * kHeads * d, 6);
        for (int mode = 0; mode < 3; ++mode) {
            std::vector<float> scores(static_cast<size_t>(kKvHeads * capacity), 99.0f);
            auto a = structure<kvp_page_bound_scores_arguments>();
            a.bounds = address_of(bounds);
            a.scores = address_of(scores);
            a.capacity = a.scores_stride = static_cast<uint64_t>(capacity);
            a.row = 1;
            a.n_pages = n_pages;
            a.n_heads = kHeads;
            a.n_kv_heads = kKvHeads;
            a.head_size = d;
            a.mean = mode == 1 ? 1 : 0;
            a.relative = mode == 2 ? 1 : 0;
            device().run("kvp.page_bound_scores/1", {Tensor::f32(q, {2, kHeads * d})}, &a);
            for (int64_t head = 0; head < kKvHeads; ++head) {
                std::vector<double> raw(static_cast<size_t>(kGroup * n_pages));
                for (int64_t h = 0; h < kGroup; ++h) {
                    for (int64_t page = 0; page < n_pages; ++page) {
                        for (int64_t i = 0; i < d; ++i) {
                            const double x = q[static_cast<size_t>((kHeads + head * kGroup + h) * d + i)];
                            const auto at = static_cast<size_t>((head * capacity + page) * 2 * d + i);
                            raw[static_cast<size_t>(h * n_pages + page)] +=
                                std::max(x * bounds[at], x * bounds[at + d]);
                        }
                    }
                }
                for (int64_t page = 0; page < n_pages; ++page) {
                    double best = -1e9, sum = 0;
                    for (int64_t h = 0; h < kGroup; ++h) {
                        const auto* line = &raw[static_cast<size_t>(h * n_pages)];
                        const double less = mode == 2 ? *std::max_element(line, line + n_pages) : 0;
                        best = std::max(best, line[page] - less);
                        sum += line[page];
                    }
                    ASSERT_NEAR(scores[static_cast<size_t>(head * capacity + page)], mode == 1 ? sum / kGroup : best,
                                2e-4)
                        << n_pages << " pages, mode " << mode;
                }
            }
            EXPECT_EQ(scores[static_cast<size_t>(n_pages)], 99.0f);
        }
    }
}

TEST_P(CpuStrategyOps, column_sums_are_attentions_probabilities_over_any_pieces_of_rows_and_queries) {
    for (const uint32_t type : kRowTypes) {
        for (const int64_t n_queries : {1, 7, 40}) {
            constexpr int64_t kTokens = 141, d = 32, kCapacity = 150, kFresh = 120;
            CachedSequence sequence(kTokens, kKvHeads, d, 16, type, 7);
            sequence.fill(8);
            const int64_t first = kTokens - n_queries;
            const auto q = random_floats(static_cast<size_t>((n_queries + 2) * kHeads * d), 9);
            const double scale = 1 / std::sqrt(double(d));
            const auto score = [&](int64_t query, int64_t h, int64_t token) {
                double sum = 0;
                for (int64_t i = 0; i < d; ++i) {
                    sum +=
                        q[static_cast<size_t>(((query + 2) * kHeads + h) * d + i)] * sequence.get(h / kGroup, token, i);
                }
                return sum * scale;
            };
            std::vector<float> lse(static_cast<size_t>((n_queries + 2) * kHeads));
            std::vector<double> expected(kKvHeads * kTokens);
            for (int64_t query = 0; query < n_queries; ++query) {
                for (int64_t h = 0; h < kHeads; ++h) {
                    double total = 0;
                    for (int64_t token = 0; token <= first + query; ++token) total += std::exp(score(query, h, token));
                    lse[static_cast<size_t>((query + 2) * kHeads + h)] = static_cast<float>(std::log(total));
                    for (int64_t token = 0; token <= first + query; ++token) {
                        expected[static_cast<size_t>(h / kGroup * kTokens + token)] +=
                            std::exp(score(query, h, token)) / total;
                    }
                }
            }
            std::vector<float> sums(kKvHeads * kCapacity, 0.5f), counts(kKvHeads * kCapacity, 2.0f);
            auto a = structure<kvp_column_sums_arguments>();
            a.rows = sequence.rows();
            a.sums = address_of(sums);
            a.counts = address_of(counts);
            a.capacity = kCapacity;
            a.n_heads = kHeads;
            a.scale = static_cast<float>(scale);
            // The queries in two parts, each over the rows in three.
            const int64_t part = (n_queries + 1) / 2;
            for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, part}, {part, n_queries}}) {
                a.fresh_begin = begin == 0 ? kFresh : kTokens;
                a.row_begin = 2 + begin;
                a.n_rows = end - begin;
                a.query_begin = first + begin;
                for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 3}, {3, 67}, {67, kTokens}}) {
                    a.token_begin = from;
                    a.token_end = to;
                    device().run(
                        "kvp.column_sums/1",
                        {Tensor::f32(q, {n_queries + 2, kHeads * d}), Tensor::f32(lse, {n_queries + 2, kHeads})}, &a);
                }
            }
            for (int64_t head = 0; head < kKvHeads; ++head) {
                for (int64_t token = 0; token < kTokens; ++token) {
                    const auto at = static_cast<size_t>(head * kCapacity + token);
                    const bool fresh = token >= kFresh;
                    ASSERT_NEAR(sums[at], expected[static_cast<size_t>(head * kTokens + token)] + (fresh ? 0 : 0.5),
                                1e-4)
                        << "type " << type << " token " << token << " of " << n_queries << " queries";
                    ASSERT_EQ(counts[at], float(kTokens - std::max(first, token)) + (fresh ? 0.0f : 2.0f));
                }
                EXPECT_EQ(sums[static_cast<size_t>(head * kCapacity + kTokens)], 0.5f);
            }
        }
    }
}

TEST_P(CpuStrategyOps, scores_are_pooled_over_the_places_that_there_are) {
    const std::vector<float> scores = {4, 0, 2, 6, 1, 0, 0, 8, 0, 0};  // two heads, stride 5
    std::vector<float> counts = {2, 1, 1, 2, 1, 1, 0, 4, 1, 1};
    const auto pooled = [&](uint32_t mode, uint32_t width, bool divided) {
        std::vector<float> out(2 * 4, -1.0f);
        auto a = structure<kvp_pool_scores_arguments>();
        a.scores = address_of(const_cast<std::vector<float>&>(scores));
        a.counts = divided ? address_of(counts) : 0;
        a.pooled = address_of(out);
        a.stride = 5;
        a.pooled_stride = 4;
        a.n = 4;
        a.n_kv_heads = 2;
        a.mode = mode;
        a.width = width;
        device().run("kvp.pool_scores/1", {}, &a);
        return out;
    };
    EXPECT_EQ(pooled(KVP_POOL_MEAN, 1, false), (std::vector<float>{4, 0, 2, 6, 0, 0, 8, 0}));
    EXPECT_EQ(pooled(KVP_POOL_MEAN, 1, true), (std::vector<float>{2, 0, 2, 3, 0, 0, 2, 0}));
    EXPECT_EQ(pooled(KVP_POOL_MAX, 3, false), (std::vector<float>{4, 4, 6, 6, 0, 8, 8, 8}));
    const auto mean = pooled(KVP_POOL_MEAN, 3, false);
    const std::vector<float> expected = {4.0f / 3, 2, 8.0f / 3, 8.0f / 3, 0, 8.0f / 3, 8.0f / 3, 8.0f / 3};
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(mean[i], expected[i]);
    auto even = structure<kvp_pool_scores_arguments>();
    even.scores = address_of(const_cast<std::vector<float>&>(scores));
    even.pooled = address_of(counts);
    even.width = 2;
    even.mode = KVP_POOL_MEAN;
    EXPECT_EQ(device().try_run(device().prepare("kvp.pool_scores/1"), {}, &even), KVP_ERROR_INVALID);
}

TEST_P(CpuStrategyOps, turned_rows_are_the_cached_ones_at_another_position) {
    for (const uint32_t type : kRowTypes) {
        for (const uint32_t style : {KVP_ROPE_HALVES, KVP_ROPE_INTERLEAVED}) {
            constexpr int64_t kTokens = 40, d = 32, r = 16, kStride = 7;
            CachedSequence sequence(kTokens, kKvHeads, d, 16, type, 11);
            sequence.fill(12);
            const std::vector<float> frequencies = {1, 0.3f, 0.1f, 0.03f, 0.01f, 3e-3f, 1e-3f, 3e-4f};
            const Tensor constant = Tensor::f32(frequencies, {r / 2});
            auto attributes = structure<kvp_rope_attributes>();
            attributes.style = style;
            attributes.head_size = d;
            attributes.dimensions = r;
            attributes.magnitude = 1.7f;  // the cached keys have it already
            std::vector<float> out(kKvHeads * kStride * 2 * d, 99.0f);
            auto a = structure<kvp_turned_rows_arguments>();
            a.rows = sequence.rows();
            a.virtual_rows = address_of(out);
            a.stride = kStride;
            a.token_begin = 14;
            a.token_end = 19;
            a.shift = 5000;
            device().run(device().prepare("kvp.turned_rows/1", &attributes, {constant.get()}), {}, &a);
            for (int64_t head = 0; head < kKvHeads; ++head) {
                for (int64_t row = 0; row < 5; ++row) {
                    for (int64_t i = 0; i < 2 * d; ++i) {
                        double expected = sequence.get(head, 14 + row, i);
                        if (i < r) {
                            const bool halves = style == KVP_ROPE_HALVES;
                            const int64_t pair = halves ? i % (r / 2) : i / 2;
                            const bool second = halves ? i >= r / 2 : i % 2 == 1;
                            const double angle = 5000.0 * double(frequencies[static_cast<size_t>(pair)]);
                            const double x = sequence.get(head, 14 + row, halves ? pair : 2 * pair);
                            const double y = sequence.get(head, 14 + row, halves ? pair + r / 2 : 2 * pair + 1);
                            expected = second ? x * std::sin(angle) + y * std::cos(angle)
                                              : x * std::cos(angle) - y * std::sin(angle);
                        }
                        ASSERT_NEAR(out[static_cast<size_t>((head * kStride + row) * 2 * d + i)], expected, 2e-5)
                            << "type " << type << " style " << style << " value " << i;
                    }
                }
            }
            EXPECT_EQ(out[5 * 2 * d], 99.0f);
        }
    }
}

KVPLANE_ALL_LEVELS(CpuStrategyOps);

}  // namespace
}  // namespace kvplane::test

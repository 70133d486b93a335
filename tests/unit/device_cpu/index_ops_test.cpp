// Index ops beyond what golden_test.cpp covers: other types, shapes and edges, against the text of ops.h in doubles.
#include <limits>
#include <set>

#include "cached_sequence.h"

namespace kvplane::test {
namespace {

class CpuIndexOps : public CpuDevice {};

TEST_P(CpuIndexOps, sums_columns_of_a_range_of_rows_and_goes_on) {
    for (const int64_t d : {16, 80}) {
        const auto q = random_floats(static_cast<size_t>(150 * 6 * d), 1);
        const auto k = random_floats(static_cast<size_t>(150 * 2 * d), 2);
        std::vector<double> sums(static_cast<size_t>(2 * 5 * d), 3.0);
        auto a = structure<kvp_column_statistics_arguments>();
        a.statistics = address_of(sums);
        a.row_begin = 3;
        a.n_rows = 140;
        a.n_heads = 6;
        a.n_kv_heads = 2;
        a.head_size = static_cast<uint32_t>(d);
        device().run("kvp.column_statistics/1", {Tensor::f32(q, {150, 6 * d}), Tensor::f32(k, {150, 2 * d})}, &a);
        for (int64_t g = 0; g < 2; ++g) {
            for (int64_t i = 0; i < d; ++i) {
                double expected[5] = {3, 3, 3, 3, 3};
                for (int64_t row = 3; row < 143; ++row) {
                    for (int64_t h = 0; h < 3; ++h) {
                        const double x = q[static_cast<size_t>((row * 6 + g * 3 + h) * d + i)];
                        expected[0] += std::abs(x);
                        expected[1] += x * x;
                    }
                    const double x = k[static_cast<size_t>((row * 2 + g) * d + i)];
                    expected[2] += std::abs(x);
                    expected[3] += x;
                    expected[4] += x * x;
                }
                for (int64_t j = 0; j < 5; ++j)
                    ASSERT_NEAR(sums[static_cast<size_t>((g * 5 + j) * d + i)], expected[j], 1e-3) << j;
            }
        }
    }
}

TEST_P(CpuIndexOps, breaks_ties_of_columns_to_the_lower_and_marks_unused_ones) {
    std::vector<double> statistics(5 * 4, 1.0);  // all columns alike
    std::vector<float> projection(4 * 6, 9.0f);
    std::vector<int32_t> index(6, 9);
    std::vector<float> mean(6, 9.0f);
    auto a = structure<kvp_partial_index_arguments>();
    a.statistics = address_of(statistics);
    a.projection = address_of(projection);
    a.index = address_of(index);
    a.mean = address_of(mean);
    a.n_rows = 2;
    a.mode = KVP_COLUMNS_UNION;
    a.n_chosen = 3;
    a.n_columns = 6;
    a.n_heads = a.n_kv_heads = 1;
    a.head_size = 4;
    device().run("kvp.partial_index/1", {}, &a);
    EXPECT_EQ(index, (std::vector<int32_t>{0, 1, 2, -1, -1, -1}));
    EXPECT_EQ(mean, (std::vector<float>{0.5f, 0.5f, 0.5f, 0, 0, 0}));
    for (size_t i = 0; i < 4; ++i) {
        for (size_t j = 0; j < 6; ++j) ASSERT_EQ(projection[i * 6 + j], i == j && j < 3 ? 1.0f : 0.0f);
    }
}

TEST_P(CpuIndexOps, scores_partial_keys_of_every_type_and_width) {
    for (const uint32_t type : {KVP_TYPE_F32, KVP_TYPE_F16, KVP_TYPE_I8, KVP_TYPE_I4}) {
        for (const uint32_t n : {1u, 18u, 32u, 77u}) {
            for (const uint32_t best : {0u, 1u}) {
                constexpr int64_t kTokens = 704;  // room for whole tiles
                constexpr int64_t d = 32;
                // rows of another type for each type of partial keys
                CachedSequence cached(kTokens, 2, d, 16, kRowTypes[(type + n) % 3], 1);
                cached.fill(2);
                auto projection = random_floats(2 * d * n, 3, 0.3f);
                auto mean = random_floats(2 * n, 4);
                std::vector<float> keys(2 * kTokens * ((n + 7) / 8 * 8));
                std::vector<float> scales(2 * kTokens, 0.5f);  // for i4: the columns' steps
                auto pk = structure<kvp_partial_keys_arguments>();
                pk.rows = cached.rows();
                pk.projection = address_of(projection);
                pk.mean = address_of(mean);
                pk.keys = address_of(keys);
                pk.scales = address_of(scales);
                pk.capacity = kTokens;
                pk.token_end = kTokens;
                pk.type = type;
                pk.n_columns = n;
                device().run("kvp.partial_keys/1", {}, &pk);
                const auto q = random_floats(3 * 6 * d, 5);
                std::vector<float> scores(2 * 800, 9.0f);
                auto ps = structure<kvp_partial_scores_arguments>();
                ps.projection = pk.projection;
                ps.keys = pk.keys;
                ps.scales = pk.scales;
                ps.scores = address_of(scores);
                ps.capacity = kTokens;
                ps.scores_stride = 800;
                ps.row = 1;
                ps.n_tokens = kTokens - 1;
                ps.type = type;
                ps.n_columns = n;
                ps.n_heads = 6;
                ps.n_kv_heads = 2;
                ps.head_size = d;
                ps.best_head = best;
                ps.scale = 0.25f;
                device().run("kvp.partial_scores/1", {Tensor::f32(q, {3, 6 * d})}, &ps);
                for (int64_t g = 0; g < 2; ++g) {
                    std::vector<std::vector<double>> raw(3, std::vector<double>(kTokens - 1));
                    double slack = 2e-5;  // and what quantised keys may round away
                    for (size_t h = 0; h < 3; ++h) {
                        std::vector<double> projected(n);
                        double total = 0;
                        for (uint32_t j = 0; j < n; ++j) {
                            for (int64_t i = 0; i < d; ++i)
                                projected[j] +=
                                    q[static_cast<size_t>((6 + g * 3 + static_cast<int64_t>(h)) * d + i)] *
                                    static_cast<double>(projection[static_cast<size_t>((g * d + i) * n + j)]);
                            total += std::abs(projected[j]);
                        }
                        for (int64_t t = 0; t < kTokens - 1; ++t) {
                            double most = 0;
                            for (uint32_t j = 0; j < n; ++j) {
                                double key = 0;
                                for (int64_t i = 0; i < d; ++i)
                                    key += cached.get(g, t, i) *
                                           static_cast<double>(projection[static_cast<size_t>((g * d + i) * n + j)]);
                                if (type == KVP_TYPE_I8 || type == KVP_TYPE_I4)
                                    key -= mean[static_cast<size_t>(g) * n + j];
                                if (type == KVP_TYPE_I4) key = std::clamp(key, -4.0, 3.5);
                                most = std::max(most, std::abs(key));
                                raw[h][static_cast<size_t>(t)] += 0.25 * projected[j] * key;
                            }
                            const double step = type == KVP_TYPE_I8    ? most / 127
                                                : type == KVP_TYPE_I4  ? 0.5
                                                : type == KVP_TYPE_F16 ? most / 1024
                                                                       : 0;
                            slack = std::max(slack, 2 * 0.25 * 0.501 * step * total + 2e-5);
                        }
                        const double maximum = *std::max_element(raw[h].begin(), raw[h].end());
                        for (double& x : raw[h]) x -= maximum;
                    }
                    for (size_t t = 0; t < kTokens - 1; ++t) {
                        const double expected = best != 0 ? std::max({raw[0][t], raw[1][t], raw[2][t]})
                                                          : (raw[0][t] + raw[1][t] + raw[2][t]) / 3;
                        ASSERT_NEAR(scores[static_cast<size_t>(g) * 800 + t], expected, slack)
                            << type << " " << n << " " << t;
                    }
                    ASSERT_EQ(scores[static_cast<size_t>(g) * 800 + kTokens], 9.0f);
                }
            }
        }
    }
}

struct Selection {
    std::vector<std::vector<int32_t>> rows;
};

// The text of kvp_select_rows_arguments, the slow way.
Selection select(const std::vector<float>& scores, const kvp_select_rows_arguments& a) {
    Selection result;
    std::vector<int64_t> counts;
    for (uint32_t g = 0; g < a.n_kv_heads; ++g) {
        const float* line = scores.data() + g * a.scores_stride;
        const float most = *std::max_element(line, line + a.n_tokens);
        int64_t count = 0;
        for (int64_t i = 0; i < a.n_tokens; ++i) {
            count += (a.flags & KVP_SELECT_STRICT) != 0 ? line[i] - most > -a.alpha : line[i] - most >= -a.alpha;
        }
        if (a.fixed_share >= 0) count = static_cast<int64_t>(a.fixed_share * static_cast<float>(a.n_tokens));
        counts.push_back(count);
    }
    if ((a.flags & KVP_SELECT_PER_HEAD) == 0) {
        int64_t total = 0;
        for (const int64_t count : counts) total += count;
        std::fill(counts.begin(), counts.end(), total / a.n_kv_heads);
    }
    for (uint32_t g = 0; g < a.n_kv_heads; ++g) {
        const float* line = scores.data() + g * a.scores_stride;
        int64_t count = std::max<int64_t>(counts[g], a.min_count);
        count = std::min(count, static_cast<int64_t>(a.max_share * static_cast<float>(a.n_tokens)));
        count = std::min<int64_t>(std::max<int64_t>(count, 1), a.max_count);
        std::vector<int32_t> rows;
        for (int64_t i = a.skip_begin; i < a.n_tokens - a.skip_end; ++i) rows.push_back(static_cast<int32_t>(i));
        std::stable_sort(rows.begin(), rows.end(), [&](int32_t x, int32_t y) { return line[x] > line[y]; });
        if (static_cast<int64_t>(rows.size()) > count) rows.resize(static_cast<size_t>(count));
        std::sort(rows.begin(), rows.end());
        result.rows.push_back(rows);
    }
    return result;
}

TEST_P(CpuIndexOps, selects_the_best_rows_under_every_bound) {
    std::mt19937 engine(6);
    const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
    for (int round = 0; round < 300; ++round) {
        auto a = structure<kvp_select_rows_arguments>();
        a.n_kv_heads = 1 + static_cast<uint32_t>(random() % 3);
        a.n_tokens = 1 + static_cast<int64_t>(random() % 90);
        a.scores_stride = 100;
        std::vector<float> scores(a.n_kv_heads * 100);
        // few distinct values, so that ties and equal thresholds happen; some -inf and both zeros
        for (float& x : scores) x = random() % 9 == 0 ? -INFINITY : -0.5f * static_cast<float>(random() % 12);
        for (uint32_t g = 0; g < a.n_kv_heads; ++g)
            scores[g * 100 + random() % static_cast<uint32_t>(a.n_tokens)] = random() % 2 == 0 ? 0.0f : -0.0f;
        std::vector<int32_t> index(a.n_kv_heads * 95, -7);
        std::vector<int32_t> counts(a.n_kv_heads, -7);
        a.scores = address_of(scores);
        a.index = address_of(index);
        a.index_stride = 95;
        a.counts = address_of(counts);
        a.skip_begin = static_cast<int64_t>(random() % 5);
        a.skip_end = static_cast<int64_t>(random() % 20);
        a.flags = random() % 4;
        a.min_count = random() % 8;
        a.max_count = 1 + random() % 95;
        const float alphas[] = {0.5f, 2.0f, 0.0f, INFINITY};
        a.alpha = alphas[random() % 4];
        a.max_share = random() % 2 == 0 ? 0.2f : 1.0f;
        a.fixed_share = random() % 3 == 0 ? 0.3f : -1.0f;
        device().run("kvp.select_rows/1", {}, &a);
        const Selection expected = select(scores, a);
        for (uint32_t g = 0; g < a.n_kv_heads; ++g) {
            ASSERT_GE(counts[g], 0);
            const std::vector<int32_t> found(index.begin() + g * 95, index.begin() + g * 95 + counts[g]);
            ASSERT_EQ(found, expected.rows[g]) << "round " << round << " KV head " << g;
        }
    }
}

TEST_P(CpuIndexOps, keeps_page_means_as_rows_are_appended) {
    for (const uint32_t type : kRowTypes) {
        CachedSequence cached(100, 2, 16, 4, type, 7);
        cached.fill(8);
        std::vector<float> means(2 * 14 * 32, NAN);
        auto a = structure<kvp_page_means_arguments>();
        a.rows = cached.rows();
        a.means = address_of(means);
        a.capacity = 14;
        a.page_tokens = 8;
        int64_t done = 0;
        for (const int64_t end : {1, 2, 7, 9, 30, 32, 32, 33, 100}) {
            a.token_begin = done;
            a.token_end = end;
            device().run("kvp.page_means/1", {}, &a);
            done = end;
            for (int64_t g = 0; g < 2; ++g) {
                for (int64_t page = 0; page * 8 < end; ++page) {
                    for (int64_t i = 0; i < 32; ++i) {
                        double sum = 0;
                        const int64_t last = std::min(end, page * 8 + 8);
                        for (int64_t token = page * 8; token < last; ++token) sum += cached.get(g, token, i);
                        ASSERT_NEAR(means[static_cast<size_t>((g * 14 + page) * 32 + i)],
                                    sum / static_cast<double>(last - page * 8), 2e-6);
                    }
                }
            }
        }
        a.capacity = 12;
        a.token_begin = 0;
        EXPECT_EQ(device().try_run(device().prepare("kvp.page_means/1"), {}, &a), KVP_ERROR_INVALID);
    }
}

TEST_P(CpuIndexOps, counts_what_a_page_mean_stands_for) {
    std::mt19937 engine(9);
    const auto random = [&engine] { return static_cast<uint32_t>(engine()); };
    for (int round = 0; round < 50; ++round) {
        auto a = structure<kvp_page_bias_arguments>();
        a.n_kv_heads = 2;
        a.n_tokens = static_cast<int64_t>(random() % 70);
        a.page_tokens = 8;
        a.capacity = 9;
        a.skip_begin = static_cast<int64_t>(random() % 10);
        a.skip_end = static_cast<int64_t>(random() % 20);
        a.index_stride = 70;
        std::vector<int32_t> index(140, -1);
        std::vector<int32_t> counts(2);
        std::vector<float> bias(18, 9.0f);
        std::vector<std::set<int32_t>> chosen(2);
        for (size_t g = 0; g < 2; ++g) {
            for (int32_t t = 0; t < a.n_tokens; ++t) {
                if (random() % 3 == 0) chosen[g].insert(t);
            }
            std::copy(chosen[g].begin(), chosen[g].end(), index.begin() + static_cast<int64_t>(g * 70));
            counts[g] = static_cast<int32_t>(chosen[g].size());
        }
        a.index = address_of(index);
        a.counts = address_of(counts);
        a.bias = address_of(bias);
        device().run("kvp.page_bias/1", {}, &a);
        for (size_t g = 0; g < 2; ++g) {
            for (int64_t page = 0; page < 9; ++page) {
                int left = 0;
                for (int64_t t = page * 8; t < std::min(a.n_tokens, page * 8 + 8); ++t) {
                    left += t >= a.skip_begin && t < a.n_tokens - a.skip_end &&
                            chosen[g].count(static_cast<int32_t>(t)) == 0;
                }
                const float found = bias[g * 9 + static_cast<size_t>(page)];
                if (page * 8 >= a.n_tokens) {
                    ASSERT_EQ(found, 9.0f);  // not touched
                } else if (left == 0) {
                    ASSERT_EQ(found, -INFINITY);
                } else {
                    ASSERT_NEAR(found, std::log(left), 1e-6);
                }
            }
        }
    }
}

KVPLANE_ALL_LEVELS(CpuIndexOps);

}  // namespace
}  // namespace kvplane::test

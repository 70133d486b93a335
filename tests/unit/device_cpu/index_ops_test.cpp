// Index ops beyond what golden_test.cpp covers: other types, shapes and edges, against the text of ops.h in doubles.
#include <limits>
#include <numeric>
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
            for (const uint32_t of_group : {KVP_GROUP_MEAN, KVP_GROUP_BEST, KVP_GROUP_MASS}) {
                constexpr int64_t kTokens = 704;  // room for whole tiles
                constexpr int64_t d = 32;
                // rows of another type for each type of partial keys
                CachedSequence cached(kTokens, 2, d, 16, kRowTypes[(type + n) % 3], 1);
                cached.fill(2);
                auto projection = random_floats(2 * d * n, 3, 0.3f);
                const bool only_columns = n == 18 || n == 77;  // one may be nothing, or come twice
                std::vector<int32_t> columns;
                for (int32_t i = 0; i < static_cast<int32_t>(2 * n); ++i)
                    columns.push_back(i % 5 == 3 ? -1 : i * 7 % static_cast<int32_t>(d));
                for (size_t i = 0; only_columns && i < projection.size(); ++i) {
                    const size_t column = i / (d * n) * n + i % n;
                    projection[i] = columns[column] == static_cast<int32_t>(i / n % d) ? 1.0f : 0.0f;
                }
                auto mean = random_floats(2 * n, 4);
                std::vector<float> keys(2 * kTokens * ((n + 7) / 8 * 8));
                std::vector<float> scales(2 * kTokens, 0.5f);  // for i4: the columns' steps
                auto pk = structure<kvp_partial_keys_arguments>();
                pk.rows = cached.rows();
                if (!only_columns) pk.projection = address_of(projection);
                pk.columns = address_of(columns);
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
                ps.columns = pk.columns;
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
                ps.group_score = of_group;
                ps.scale = 0.25f;
                device().run("kvp.partial_scores/1", {Tensor::f32(q, {3, 6 * d})}, &ps);
                for (int64_t g = 0; g < 2; ++g) {
                    std::vector<std::vector<double>> raw(3, std::vector<double>(kTokens - 1));
                    double slack = 5e-5;  // of f32 sums, and what quantised keys may round away
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
                            slack = std::max(slack, 2 * 0.25 * 0.501 * step * total + 5e-5);
                        }
                        const double maximum = *std::max_element(raw[h].begin(), raw[h].end());
                        double mass = 0;
                        for (const double x : raw[h]) mass += std::exp(x - maximum);
                        for (double& x : raw[h]) x -= maximum + (of_group == KVP_GROUP_MASS ? std::log(mass) : 0);
                    }
                    for (size_t t = 0; t < kTokens - 1; ++t) {
                        const double expected = of_group != KVP_GROUP_MEAN ? std::max({raw[0][t], raw[1][t], raw[2][t]})
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

// Each of those that go together.
uint32_t select_flags(uint32_t random) {
    const uint32_t counts[] = {0, KVP_SELECT_PER_HEAD, KVP_SELECT_SHARED};
    return counts[random % 3] | (random / 3 % 2 == 0 ? 0 : uint32_t{KVP_SELECT_STRICT});
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
    for (int64_t& count : counts) {
        count = std::max<int64_t>(count, a.min_count);
        count = std::min(count, static_cast<int64_t>(a.max_share * static_cast<float>(a.n_tokens)));
        count = std::min<int64_t>(std::max<int64_t>(count, 1), a.max_count);
    }
    if ((a.flags & KVP_SELECT_SHARED) != 0) {
        std::vector<std::pair<float, size_t>> all;  // score and KV head, in the order of ties
        for (size_t g = 0; g < a.n_kv_heads; ++g) {
            for (int64_t row = a.skip_begin; row < a.n_tokens - a.skip_end; ++row) {
                all.emplace_back(scores[g * a.scores_stride + static_cast<size_t>(row)], g);
            }
        }
        std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
        const auto total = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
        std::fill(counts.begin(), counts.end(), 0);
        for (size_t i = 0; i < std::min(total, all.size()); ++i) ++counts[all[i].second];
        for (int64_t& count : counts) count = std::min<int64_t>(count, a.max_count);
    }
    for (uint32_t g = 0; g < a.n_kv_heads; ++g) {
        const float* line = scores.data() + g * a.scores_stride;
        const int64_t count = counts[g];
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
        const uint32_t room = round % 10 == 0 ? 5000 : 95;  // long enough to be looked through in blocks, or not
        a.n_tokens = 1 + static_cast<int64_t>(random() % (room - 5));
        a.scores_stride = room;
        std::vector<float> scores(a.n_kv_heads * room);
        // few distinct values, so that ties and equal thresholds happen; some -inf and both zeros
        const uint32_t n_values = round % 20 == 0 ? 3000 : 12;
        for (float& x : scores) x = random() % 9 == 0 ? -INFINITY : -0.5f * static_cast<float>(random() % n_values);
        for (uint32_t g = 0; g < a.n_kv_heads; ++g)
            scores[g * room + random() % static_cast<uint32_t>(a.n_tokens)] = random() % 2 == 0 ? 0.0f : -0.0f;
        std::vector<int32_t> index(a.n_kv_heads * room, -7);
        std::vector<int32_t> counts(a.n_kv_heads, -7);
        a.scores = address_of(scores);
        a.index = address_of(index);
        a.index_stride = room;
        a.counts = address_of(counts);
        a.skip_begin = static_cast<int64_t>(random() % 5);
        a.skip_end = static_cast<int64_t>(random() % 20);
        a.flags = select_flags(random());
        a.min_count = random() % (room / 12);
        a.max_count = 1 + random() % room;
        const float alphas[] = {0.5f, 2.0f, 0.0f, INFINITY};
        a.alpha = alphas[random() % 4];
        a.max_share = random() % 2 == 0 ? 0.2f : 1.0f;
        a.fixed_share = random() % 3 == 0 ? 0.3f : -1.0f;
        device().run("kvp.select_rows/1", {}, &a);
        const Selection expected = select(scores, a);
        for (uint32_t g = 0; g < a.n_kv_heads; ++g) {
            ASSERT_GE(counts[g], 0);
            const std::vector<int32_t> found(index.begin() + g * room, index.begin() + g * room + counts[g]);
            ASSERT_EQ(found, expected.rows[g]) << "round " << round << " KV head " << g;
        }
    }
}

// Values that an op reads or writes in f32 or f16.
class Values {
public:
    Values(uint32_t type, const std::vector<float>& x) : type_(type), wide_(x) {
        for (const float value : x) narrow_.push_back(nearest_half(value));
    }
    kvp_address address() { return type_ == KVP_TYPE_F16 ? address_of(narrow_) : address_of(wide_); }
    double operator[](size_t i) const { return type_ == KVP_TYPE_F16 ? half_value(narrow_[i]) : wide_[i]; }

private:
    uint32_t type_;
    std::vector<float> wide_;
    std::vector<uint16_t> narrow_;
};

TEST_P(CpuIndexOps, keeps_page_means_as_rows_are_appended) {
    for (const auto& [type, mean_type] : std::vector<std::pair<uint32_t, uint32_t>>{
             {KVP_TYPE_F32, KVP_TYPE_F32}, {KVP_TYPE_F16, KVP_TYPE_F16}, {KVP_TYPE_I8, KVP_TYPE_F32}}) {
        CachedSequence cached(100, 2, 16, 4, type, 7);
        cached.fill(8);
        Values means(mean_type, std::vector<float>(2 * 14 * 32, 7.0f));
        Values spreads(mean_type, std::vector<float>(2 * 14 * 16, 7.0f));
        // An f16 is rounded by up to 2^-11 of it at each of 8 appends, the spread's square besides by what the mean is.
        const double mean_error = mean_type == KVP_TYPE_F16 ? 4e-3 : 2e-6;
        const double spread_error = mean_type == KVP_TYPE_F16 ? 4e-2 : 5e-4;
        auto a = structure<kvp_page_means_arguments>();
        a.rows = cached.rows();
        a.means = means.address();
        a.spreads = spreads.address();
        a.type = mean_type;
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
                        double squares = 0;
                        const int64_t last = std::min(end, page * 8 + 8);
                        for (int64_t token = page * 8; token < last; ++token) {
                            sum += cached.get(g, token, i);
                            squares += cached.get(g, token, i) * cached.get(g, token, i);
                        }
                        const double mean = sum / static_cast<double>(last - page * 8);
                        ASSERT_NEAR(means[static_cast<size_t>((g * 14 + page) * 32 + i)], mean, mean_error);
                        if (i >= 16) continue;
                        const double variance = squares / static_cast<double>(last - page * 8) - mean * mean;
                        ASSERT_NEAR(spreads[static_cast<size_t>((g * 14 + page) * 16 + i)], std::sqrt(variance),
                                    spread_error);
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

TEST_P(CpuIndexOps, keeps_the_pages_that_rows_may_be_found_in) {
    for (const int64_t n_pages : {1, 63, 130, 700}) {
        for (const uint32_t count : {1u, 20u, 700u}) {
            constexpr int64_t d = 32;
            const auto capacity = static_cast<size_t>(n_pages + 3);
            const uint32_t type = count == 20 ? KVP_TYPE_F32 : KVP_TYPE_F16;
            Values means(type, random_floats(2 * capacity * 2 * d, 11));
            auto magnitudes = random_floats(2 * capacity * d, 12);
            for (float& x : magnitudes) x = std::abs(x);
            Values spreads(type, magnitudes);
            const auto q = random_floats(2 * 6 * d, 13);
            std::vector<int32_t> pages(2 * 700, -7);
            std::vector<int32_t> counts(2, -7);
            auto a = structure<kvp_select_pages_arguments>();
            a.means = means.address();
            a.spreads = spreads.address();
            a.type = type;
            a.pages = address_of(pages);
            a.page_counts = address_of(counts);
            a.capacity = capacity;
            a.pages_stride = 700;
            a.row = 1;
            a.n_tokens = n_pages * 16 - 5;
            a.n_heads = 6;
            a.n_kv_heads = 2;
            a.head_size = d;
            a.page_tokens = 16;
            a.count = count;
            device().run("kvp.select_pages/1", {Tensor::f32(q, {2, 6 * d})}, &a);
            for (size_t g = 0; g < 2; ++g) {
                std::vector<double> best(static_cast<size_t>(n_pages), -INFINITY);
                for (size_t h = 0; h < 3; ++h) {
                    std::vector<double> scores(static_cast<size_t>(n_pages));
                    for (size_t page = 0; page < scores.size(); ++page) {
                        for (size_t i = 0; i < d; ++i) {
                            const double x = q[(6 + g * 3 + h) * d + i];
                            scores[page] += x * means[(g * capacity + page) * 2 * d + i] +
                                            std::abs(x) * spreads[(g * capacity + page) * d + i];
                        }
                    }
                    const double most = *std::max_element(scores.begin(), scores.end());
                    for (size_t page = 0; page < scores.size(); ++page)
                        best[page] = std::max(best[page], scores[page] - most);
                }
                std::vector<int32_t> expected(static_cast<size_t>(n_pages));
                std::iota(expected.begin(), expected.end(), 0);
                std::stable_sort(expected.begin(), expected.end(), [&](int32_t x, int32_t y) {
                    return best[static_cast<size_t>(x)] > best[static_cast<size_t>(y)];
                });
                expected.resize(std::min<size_t>(expected.size(), count));
                std::sort(expected.begin(), expected.end());
                const auto begin = pages.begin() + static_cast<int64_t>(g * 700);
                ASSERT_EQ(std::vector<int32_t>(begin, begin + counts[g]), expected) << n_pages << " " << count;
            }
        }
    }
}

// What is listed scores and is chosen as if there were no other rows; the last page may be part full.
TEST_P(CpuIndexOps, scores_and_selects_within_listed_pages_alone) {
    constexpr int64_t kTokens = 1000;
    constexpr int64_t kCapacity = 1008;
    constexpr uint32_t n = 12;
    for (const uint32_t type : {KVP_TYPE_F16, KVP_TYPE_I8}) {
        CachedSequence cached(kCapacity, 2, 32, 16, KVP_TYPE_F32, 1);
        cached.fill(21);
        auto projection = random_floats(2 * 32 * n, 22, 0.3f);
        auto mean = random_floats(2 * n, 23);
        std::vector<float> keys(2 * kCapacity * n);
        std::vector<float> scales(2 * kCapacity);
        auto pk = structure<kvp_partial_keys_arguments>();
        pk.rows = cached.rows();
        pk.projection = address_of(projection);
        pk.mean = address_of(mean);
        pk.keys = address_of(keys);
        pk.scales = address_of(scales);
        pk.capacity = kCapacity;
        pk.token_end = kCapacity;
        pk.type = type;
        pk.n_columns = n;
        device().run("kvp.partial_keys/1", {}, &pk);

        const auto q = random_floats(6 * 32, 24);
        std::vector<float> all(2 * kTokens);
        std::vector<float> scores(2 * kTokens, 9.0f);
        std::vector<int32_t> pages(2 * 16, -1);
        std::vector<int32_t> page_counts = {5, 2};
        const std::vector<int32_t> lists[] = {{0, 3, 4, 9, 15}, {7, 14}};  // page 15 ends at row 1,000
        for (size_t g = 0; g < 2; ++g)
            std::copy(lists[g].begin(), lists[g].end(), pages.begin() + static_cast<int64_t>(g * 16));
        auto ps = structure<kvp_partial_scores_arguments>();
        ps.projection = pk.projection;
        ps.keys = pk.keys;
        ps.scales = pk.scales;
        ps.scores = address_of(all);
        ps.capacity = kCapacity;
        ps.scores_stride = ps.n_tokens = kTokens;
        ps.type = type;
        ps.n_columns = n;
        ps.n_heads = 6;
        ps.n_kv_heads = 2;
        ps.head_size = 32;
        ps.group_score = KVP_GROUP_MEAN;  // the mean: all scores move alike when the maxima do
        ps.scale = 0.25f;
        device().run("kvp.partial_scores/1", {Tensor::f32(q, {1, 6 * 32})}, &ps);
        ps.scores = address_of(scores);
        ps.page_tokens = 64;
        ps.pages = address_of(pages);
        ps.page_counts = address_of(page_counts);
        ps.pages_stride = 16;
        device().run("kvp.partial_scores/1", {Tensor::f32(q, {1, 6 * 32})}, &ps);

        std::vector<int32_t> index(2 * 200);
        std::vector<int32_t> counts(2);
        auto sr = structure<kvp_select_rows_arguments>();
        sr.scores = ps.scores;
        sr.scores_stride = ps.scores_stride;
        sr.index = address_of(index);
        sr.index_stride = sr.max_count = 200;
        sr.counts = address_of(counts);
        sr.n_tokens = kTokens;
        sr.skip_begin = 10;
        sr.skip_end = 20;
        sr.n_kv_heads = 2;
        sr.max_share = 1;
        sr.fixed_share = 0.05f;
        sr.page_tokens = 64;
        sr.pages = ps.pages;
        sr.page_counts = ps.page_counts;
        sr.pages_stride = 16;
        device().run("kvp.select_rows/1", {}, &sr);

        for (size_t g = 0; g < 2; ++g) {
            std::vector<int32_t> rows;
            for (const int32_t page : lists[g]) {
                for (int32_t row = page * 64; row < std::min<int32_t>(kTokens, page * 64 + 64); ++row)
                    rows.push_back(row);
            }
            const float shift = scores[g * kTokens] - all[g * kTokens + static_cast<size_t>(rows[0])];
            for (size_t i = 0; i < rows.size(); ++i) {
                ASSERT_NEAR(scores[g * kTokens + i], all[g * kTokens + static_cast<size_t>(rows[i])] + shift, 1e-4);
            }
            ASSERT_EQ(scores[g * kTokens + rows.size()], 9.0f);
            std::vector<size_t> order;
            for (size_t i = 0; i < rows.size(); ++i) {
                if (rows[i] >= 10 && rows[i] < kTokens - 20) order.push_back(i);
            }
            std::stable_sort(order.begin(), order.end(),
                             [&](size_t x, size_t y) { return scores[g * kTokens + x] > scores[g * kTokens + y]; });
            std::vector<int32_t> expected;
            for (size_t i = 0; i < 50; ++i) expected.push_back(rows[order[i]]);
            std::sort(expected.begin(), expected.end());
            const auto begin = index.begin() + static_cast<int64_t>(g * 200);
            ASSERT_EQ(std::vector<int32_t>(begin, begin + counts[g]), expected);
        }
    }
    auto ps = structure<kvp_select_rows_arguments>();
    std::vector<float> scores(64);
    std::vector<int32_t> numbers = {1, 0};  // do not ascend
    std::vector<int32_t> count = {2};
    ps.scores = address_of(scores);
    ps.scores_stride = ps.n_tokens = 64;
    ps.index = address_of(numbers);
    ps.index_stride = ps.max_count = 2;
    ps.counts = ps.page_counts = address_of(count);
    ps.n_kv_heads = 1;
    ps.page_tokens = 32;
    ps.pages = ps.index;
    ps.pages_stride = 2;
    EXPECT_EQ(device().try_run(device().prepare("kvp.select_rows/1"), {}, &ps), KVP_ERROR_INVALID);
    numbers = {0, 1};
    ps.page_tokens = 1u << 31;
    EXPECT_EQ(device().try_run(device().prepare("kvp.select_rows/1"), {}, &ps), KVP_ERROR_INVALID);
    ps.page_tokens = 32;
    ps.skip_begin = INT64_MAX;  // nothing is left
    EXPECT_EQ(device().try_run(device().prepare("kvp.select_rows/1"), {}, &ps), KVP_OK);
    EXPECT_EQ(count[0], 0);
}

TEST_P(CpuIndexOps, refuses_a_page_bias_of_impossible_sizes) {
    std::vector<int32_t> index(8), counts = {9};
    std::vector<float> bias(8);
    auto a = structure<kvp_page_bias_arguments>();
    a.index = address_of(index);
    a.index_stride = 8;
    a.counts = address_of(counts);
    a.bias = address_of(bias);
    a.capacity = 8;
    a.n_tokens = 64;
    a.n_kv_heads = 1;
    a.page_tokens = 8;
    const auto refused = [&] {
        return device().try_run(device().prepare("kvp.page_bias/1"), {}, &a) == KVP_ERROR_INVALID;
    };
    EXPECT_TRUE(refused());  // more rows than the index holds
    counts = {8};
    EXPECT_FALSE(refused());
    a.n_tokens = INT64_MAX;
    EXPECT_TRUE(refused());
    a.n_tokens = 64;
    a.page_tokens = 1u << 31;
    EXPECT_TRUE(refused());
}

KVPLANE_ALL_LEVELS(CpuIndexOps);

}  // namespace
}  // namespace kvplane::test

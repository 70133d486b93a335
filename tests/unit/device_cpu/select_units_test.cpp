// kvp.select_rows/1 with unit_tokens: whole units, against the text of ops.h taken literally.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "levels.h"

namespace kvplane::test {
namespace {

class CpuSelectUnits : public CpuDevice {};

using Rows = std::vector<int32_t>;

// The arguments with what they point to. Scores of a KV head stand in its first entries: all rows, or those of its pages.
struct Choice {
    Choice(uint32_t n_heads, int64_t n_tokens, uint32_t unit, uint32_t room)
        : scores(n_heads, std::vector<float>(static_cast<size_t>(n_tokens), -9.0f)), pages(n_heads) {
        a.n_kv_heads = n_heads;
        a.n_tokens = n_tokens;
        a.unit_tokens = unit;
        a.max_count = room;
        a.max_share = 1;
        a.fixed_share = 0;
    }

    Rows rows_of(size_t head) const {
        Rows rows;
        for (int32_t row = 0; row < a.n_tokens; ++row) {
            const auto page = a.page_tokens > 0 ? row / static_cast<int32_t>(a.page_tokens) : 0;
            const bool listed = a.page_tokens == 0 || std::count(pages[head].begin(), pages[head].end(), page) > 0;
            if (listed) rows.push_back(row);
        }
        return rows;
    }

    // Fills what a.scores, a.pages and the results point to.
    void lay_out() {
        const auto n_heads = static_cast<size_t>(a.n_kv_heads);
        const auto stride = static_cast<size_t>(a.n_tokens) + 3;
        flat.assign(n_heads * stride, 99.0f);  // behind the last score nothing may be read
        lists.assign(n_heads * 100, -1);
        page_counts.clear();
        for (size_t head = 0; head < n_heads; ++head) {
            const auto n = static_cast<std::ptrdiff_t>(rows_of(head).size());
            std::copy_n(scores[head].begin(), n, flat.begin() + static_cast<std::ptrdiff_t>(head * stride));
            std::copy(pages[head].begin(), pages[head].end(), lists.begin() + static_cast<std::ptrdiff_t>(head * 100));
            page_counts.push_back(static_cast<int32_t>(pages[head].size()));
        }
        index.assign(n_heads * (a.max_count + 2), -7);
        counts.assign(n_heads, -7);
        a.scores = address_of(flat);
        a.scores_stride = stride;
        a.index = address_of(index);
        a.index_stride = a.max_count + 2;
        a.counts = address_of(counts);
        if (a.page_tokens == 0) return;
        a.pages = address_of(lists);
        a.page_counts = address_of(page_counts);
        a.pages_stride = 100;
    }

    Rows found(size_t head) const {
        const auto begin = index.begin() + static_cast<std::ptrdiff_t>(head * a.index_stride);
        for (int32_t i = counts[head]; i < static_cast<int32_t>(a.index_stride); ++i) EXPECT_EQ(begin[i], -7);
        return {begin, begin + counts[head]};
    }

    kvp_select_rows_arguments a = structure<kvp_select_rows_arguments>();
    std::vector<std::vector<float>> scores;
    std::vector<Rows> pages;

private:
    std::vector<float> flat;
    Rows lists, page_counts, index, counts;
};

// The best rows of all KV heads together, ties to the lower head, say what each head gets.
void share_out(const Choice& choice, std::vector<int64_t>& counts) {
    const auto& a = choice.a;
    std::vector<std::pair<float, size_t>> all;
    for (size_t head = 0; head < a.n_kv_heads; ++head) {
        const Rows rows = choice.rows_of(head);
        for (size_t entry = 0; entry < rows.size(); ++entry) {
            if (rows[entry] < a.skip_begin || rows[entry] >= a.n_tokens - a.skip_end) continue;
            all.emplace_back(choice.scores[head][entry], head);
        }
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    const auto total = static_cast<size_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    counts.assign(counts.size(), 0);
    for (size_t i = 0; i < std::min(total, all.size()); ++i) ++counts[all[i].second];
    for (int64_t& count : counts) count = std::min<int64_t>(count, a.max_count);
}

std::vector<int64_t> counts_of(const Choice& choice) {
    const auto& a = choice.a;
    std::vector<int64_t> counts;
    for (size_t head = 0; head < a.n_kv_heads; ++head) {
        const auto begin = choice.scores[head].begin();
        const auto end = begin + static_cast<std::ptrdiff_t>(choice.rows_of(head).size());
        const float best = *std::max_element(begin, end);
        const bool strict = (a.flags & KVP_SELECT_STRICT) != 0;
        counts.push_back(a.fixed_share >= 0 ? static_cast<int64_t>(a.fixed_share * static_cast<float>(a.n_tokens))
                                            : std::count_if(begin, end, [&](float score) {
                                                  return strict ? score - best > -a.alpha : score - best >= -a.alpha;
                                              }));
    }
    if ((a.flags & KVP_SELECT_PER_HEAD) == 0) {
        const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        counts.assign(counts.size(), total / a.n_kv_heads);
    }
    for (int64_t& count : counts) {
        count = std::max<int64_t>(count, a.min_count);
        count = std::min(count, static_cast<int64_t>(a.max_share * static_cast<float>(a.n_tokens)));
        count = std::min<int64_t>(std::max<int64_t>(count, 1), a.max_count);
    }
    if ((a.flags & KVP_SELECT_SHARED) != 0) share_out(choice, counts);
    return counts;
}

Rows expected(const Choice& choice, size_t head, int64_t count) {
    struct Unit {
        float score = -INFINITY;
        Rows rows;
    };
    const Rows rows = choice.rows_of(head);
    std::vector<Unit> units;
    for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i] < choice.a.skip_begin || rows[i] >= choice.a.n_tokens - choice.a.skip_end) continue;
        const auto unit = static_cast<int32_t>(choice.a.unit_tokens);
        if (units.empty() || units.back().rows[0] / unit != rows[i] / unit) units.emplace_back();
        units.back().rows.push_back(rows[i]);
        units.back().score = std::max(units.back().score, choice.scores[head][i]);
    }
    std::stable_sort(units.begin(), units.end(), [](const Unit& x, const Unit& y) { return x.score > y.score; });
    Rows chosen;
    for (const Unit& unit : units) {
        if (static_cast<int64_t>(chosen.size()) >= count) break;
        if (chosen.size() + unit.rows.size() > choice.a.max_count) break;
        chosen.insert(chosen.end(), unit.rows.begin(), unit.rows.end());
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

Rows range(int32_t begin, int32_t end) {
    Rows rows(static_cast<size_t>(end - begin));
    std::iota(rows.begin(), rows.end(), begin);
    return rows;
}

void expect_chosen(const DeviceHarness& device, Choice& choice, const std::string& what) {
    choice.lay_out();
    device.run("kvp.select_rows/1", {}, &choice.a);
    const std::vector<int64_t> counts = counts_of(choice);
    for (size_t head = 0; head < choice.a.n_kv_heads; ++head) {
        ASSERT_EQ(choice.found(head), expected(choice, head, counts[head])) << what << ", KV head " << head;
    }
}

TEST_P(CpuSelectUnits, takes_the_best_units_under_every_bound) {
    std::mt19937 engine(8);
    const auto random = [&engine](uint32_t n) { return static_cast<uint32_t>(engine()) % n; };
    for (int round = 0; round < 600; ++round) {
        const uint32_t unit = std::vector<uint32_t>{2, 5, 16, 16, 32}[random(5)];
        Choice choice(1 + random(3), 1 + static_cast<int64_t>(random(300)), unit, 1 + random(150));
        choice.a.skip_begin = random(40);
        choice.a.skip_end = random(60);
        choice.a.flags = std::vector<uint32_t>{0, KVP_SELECT_PER_HEAD, KVP_SELECT_SHARED}[random(3)] |
                         (random(2) == 0 ? 0 : uint32_t{KVP_SELECT_STRICT});
        choice.a.min_count = random(50);
        choice.a.alpha = std::vector<float>{0.5f, 2.0f, 0.0f, INFINITY}[random(4)];
        choice.a.max_share = random(2) == 0 ? 0.2f : 1.0f;
        choice.a.fixed_share = random(3) == 0 ? 0.3f : -1.0f;
        // few distinct values, so that ties happen; some -inf
        for (auto& line : choice.scores) {
            for (float& x : line) x = random(9) == 0 ? -INFINITY : -0.5f * static_cast<float>(random(40));
            line[random(static_cast<uint32_t>(line.size()))] = 0;
        }
        if (round % 3 == 0) {
            choice.a.page_tokens = unit * (1 + random(3));
            const auto n_pages = static_cast<int32_t>((choice.a.n_tokens - 1) / choice.a.page_tokens + 1);
            for (auto& list : choice.pages) {
                for (int32_t page = 0; page < n_pages; ++page) {
                    if (random(2) == 0) list.push_back(page);
                }
                if (list.empty()) list.push_back(n_pages - 1);
                list.resize(std::min<size_t>(list.size(), 100));
            }
        }
        expect_chosen(device(), choice, "round " + std::to_string(round));
        if (HasFatalFailure()) return;
    }
}

TEST_P(CpuSelectUnits, long_texts_are_shared_out_among_the_threads) {
    Choice choice(3, 50'003, 16, 4000);
    std::mt19937 engine(9);
    for (auto& line : choice.scores) {
        for (float& x : line) x = -static_cast<float>(engine() % 100'000);
    }
    choice.a.skip_begin = 4;
    choice.a.skip_end = 32;
    choice.a.fixed_share = 0.05f;
    expect_chosen(device(), choice, "long");
}

TEST_P(CpuSelectUnits, a_unit_is_worth_its_best_row_and_ties_go_to_the_lower) {
    Choice choice(2, 100, 16, 100);
    choice.a.min_count = 17;
    choice.scores[0][40] = -1;                                  // unit 2
    for (size_t i = 64; i < 80; ++i) choice.scores[0][i] = -2;  // unit 4, every row better than the others of unit 2
    choice.scores[1][97] = 0.0f;                                // the last unit has 4 rows: two more are needed
    choice.scores[1][81] = choice.scores[1][3] = choice.scores[1][50] = -3;
    choice.lay_out();
    device().run("kvp.select_rows/1", {}, &choice.a);
    Rows first = range(32, 48);
    for (const int32_t row : range(64, 80)) first.push_back(row);
    EXPECT_EQ(choice.found(0), first);
    Rows second = range(0, 16);
    for (const int32_t row : range(96, 100)) second.push_back(row);
    EXPECT_EQ(choice.found(1), second);  // 20 rows: 17 are reached
}

TEST_P(CpuSelectUnits, skipped_rows_cut_units_and_lend_them_no_score) {
    Choice choice(1, 60, 16, 60);
    choice.a.skip_begin = 10;
    choice.a.skip_end = 21;
    choice.a.min_count = 7;
    choice.scores[0][3] = choice.scores[0][45] = 0;  // skipped
    choice.scores[0][12] = -1;
    choice.scores[0][38] = -2;
    choice.lay_out();
    device().run("kvp.select_rows/1", {}, &choice.a);
    Rows rows = range(10, 16);
    for (const int32_t row : range(32, 39)) rows.push_back(row);
    EXPECT_EQ(choice.found(0), rows);
}

TEST_P(CpuSelectUnits, a_unit_without_room_is_not_taken) {
    Choice choice(2, 64, 16, 15);
    choice.a.skip_begin = 4;
    choice.a.min_count = 8;
    choice.scores[0][20] = 0;
    choice.scores[1][5] = 0;  // its unit has 12 rows
    choice.lay_out();
    device().run("kvp.select_rows/1", {}, &choice.a);
    EXPECT_EQ(choice.found(0), Rows());
    EXPECT_EQ(choice.found(1), range(4, 16));
}

TEST_P(CpuSelectUnits, heads_count_for_themselves_when_told_to) {
    Choice choice(2, 96, 16, 96);
    choice.a.fixed_share = -1;
    choice.a.alpha = 1;
    for (const size_t row : {1, 2, 33, 34, 35, 65}) choice.scores[0][row] = 0;
    choice.scores[1][80] = 0;
    for (const uint32_t flags : {0u, uint32_t{KVP_SELECT_PER_HEAD}}) {
        choice.a.flags = flags;
        expect_chosen(device(), choice, "flags");
        EXPECT_EQ(choice.found(0).size(), 16u);
    }
    for (size_t row = 0; row < 48; row += 2) choice.scores[0][row] = 0;
    for (const uint32_t flags : {0u, uint32_t{KVP_SELECT_PER_HEAD}}) {
        choice.a.flags = flags;
        expect_chosen(device(), choice, "more");
        EXPECT_EQ(choice.found(0).size(), flags == 0 ? 16u : 32u);
        EXPECT_EQ(choice.found(1).size(), 16u);
    }
}

TEST_P(CpuSelectUnits, units_of_one_row_are_rows) {
    for (const uint32_t unit : {0u, 1u}) {
        Choice choice(1, 50, unit, 50);
        choice.a.min_count = 2;
        choice.scores[0][7] = choice.scores[0][31] = 0;
        choice.lay_out();
        device().run("kvp.select_rows/1", {}, &choice.a);
        EXPECT_EQ(choice.found(0), (Rows{7, 31}));
    }
}

TEST_P(CpuSelectUnits, a_caller_that_does_not_know_units_chooses_rows) {
    Choice choice(1, 50, 16, 50);
    choice.a.head.struct_size = offsetof(kvp_select_rows_arguments, unit_tokens);
    choice.a.min_count = 2;
    choice.scores[0][7] = choice.scores[0][31] = 0;
    choice.lay_out();
    device().run("kvp.select_rows/1", {}, &choice.a);
    EXPECT_EQ(choice.found(0), (Rows{7, 31}));
    choice.a.head.struct_size -= 8;
    EXPECT_EQ(device().try_run(device().prepare("kvp.select_rows/1"), {}, &choice.a), KVP_ERROR_INVALID);
}

TEST_P(CpuSelectUnits, refuses_shares_that_are_none) {
    for (const float share : {-0.5f, 1.5f, 1e30f, NAN, INFINITY}) {
        for (const bool fixed : {false, true}) {
            if (fixed && share < 0) continue;  // by threshold
            Choice choice(2, 96, 1, 96);
            (fixed ? choice.a.fixed_share : choice.a.max_share) = share;
            choice.lay_out();
            EXPECT_EQ(device().try_run(device().prepare("kvp.select_rows/1"), {}, &choice.a), KVP_ERROR_INVALID)
                << share << (fixed ? " fixed" : "");
        }
    }
}

TEST_P(CpuSelectUnits, refuses_counts_for_each_head_and_for_all_together) {
    Choice choice(2, 96, 1, 96);
    choice.lay_out();
    choice.a.flags = KVP_SELECT_PER_HEAD | KVP_SELECT_SHARED;
    EXPECT_EQ(device().try_run(device().prepare("kvp.select_rows/1"), {}, &choice.a), KVP_ERROR_INVALID);
}

TEST_P(CpuSelectUnits, refuses_units_that_reach_over_pages) {
    Choice choice(1, 96, 16, 96);
    choice.a.page_tokens = 24;
    choice.pages[0] = {0, 2};
    choice.lay_out();
    EXPECT_EQ(device().try_run(device().prepare("kvp.select_rows/1"), {}, &choice.a), KVP_ERROR_INVALID);
    EXPECT_NE(device().error().find("units of 16 rows"), std::string::npos) << device().error();
}

KVPLANE_ALL_LEVELS(CpuSelectUnits);

}  // namespace
}  // namespace kvplane::test

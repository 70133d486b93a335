#include "schedule/scheduler.h"

#include <gtest/gtest.h>

namespace kvplane {
namespace {

RunningText text(int64_t prompt, int64_t computed, int64_t after_prompt = 0) {
    RunningText made;
    made.tokens.resize(static_cast<size_t>(prompt + after_prompt));
    for (size_t i = 0; i < made.tokens.size(); ++i) made.tokens[i] = static_cast<int32_t>(100 + i);
    made.prompt_tokens = prompt;
    made.n_computed = computed;
    return made;
}

const SchedulerLimits limits{512, 1 << 20, 64, 8};

TEST(Scheduler, takes_a_whole_prompt_that_fits) {
    RunningText one = text(100, 0);
    const Step step = next_step(std::vector{std::pair{&one, uint64_t{7}}}, limits);
    ASSERT_EQ(step.parts.size(), 1u);
    EXPECT_EQ(step.parts[0].n_rows, 100);
    EXPECT_EQ(step.parts[0].user, 7u);
    EXPECT_TRUE(step.parts[0].prefill);
    EXPECT_TRUE(step.parts[0].last_chunk);
    EXPECT_EQ(step.tokens.front(), 100);
    EXPECT_EQ(step.positions.back(), 99);
}

TEST(Scheduler, ends_chunks_at_a_pages_border) {
    RunningText one = text(1000, 0);
    const Step step = next_step(std::vector{std::pair{&one, uint64_t{0}}}, {500, 1 << 20, 64, 8});
    EXPECT_EQ(step.parts[0].n_rows, 448);
    EXPECT_FALSE(step.parts[0].last_chunk);
}

TEST(Scheduler, goes_on_within_a_page_when_there_is_room_for_less_than_one) {
    RunningText one = text(1000, 0);
    const Step step = next_step(std::vector{std::pair{&one, uint64_t{0}}}, {40, 1 << 20, 64, 8});
    EXPECT_EQ(step.parts[0].n_rows, 40);
}

TEST(Scheduler, puts_decoding_sequences_before_prompts) {
    RunningText prompt = text(1000, 0);
    RunningText decoding = text(10, 10, 1);
    const Step step =
        next_step(std::vector{std::pair{&prompt, uint64_t{1}}, std::pair{&decoding, uint64_t{2}}}, limits);
    ASSERT_EQ(step.parts.size(), 2u);
    EXPECT_EQ(step.parts[0].user, 2u);
    EXPECT_EQ(step.parts[0].n_rows, 1);
    EXPECT_FALSE(step.parts[0].prefill);
    EXPECT_EQ(step.positions[0], 10);
    EXPECT_EQ(step.parts[1].row_begin, 1);
    EXPECT_EQ(step.parts[1].n_rows, 448);
}

TEST(Scheduler, decodes_given_tokens_one_at_a_time) {
    RunningText forced = text(10, 10, 50);
    const Step step = next_step(std::vector{std::pair{&forced, uint64_t{0}}}, limits);
    EXPECT_EQ(step.n_rows(), 1);
}

TEST(Scheduler, writes_no_more_rows_than_the_tiers_can_take) {
    RunningText one = text(1000, 64);
    EXPECT_EQ(next_step(std::vector{std::pair{&one, uint64_t{0}}}, {512, 64, 64, 8}).n_rows(), 64);
}

TEST(Scheduler, reads_from_no_more_prompts_than_it_may) {
    RunningText one = text(30, 0);
    RunningText two = text(30, 0);
    const std::vector both = {std::pair{&one, uint64_t{1}}, std::pair{&two, uint64_t{2}}};
    EXPECT_EQ(next_step(both, {512, 1 << 20, 64, 1}).parts.size(), 1u);
    EXPECT_EQ(next_step(both, {512, 1 << 20, 64, 2}).parts.size(), 2u);
}

TEST(Scheduler, leaves_out_what_is_finished_or_has_nothing_to_compute) {
    RunningText finished = text(10, 0);
    finished.finished = true;
    RunningText waiting = text(10, 10, 0);
    EXPECT_TRUE(next_step(std::vector{std::pair{&finished, uint64_t{0}}, std::pair{&waiting, uint64_t{1}}}, limits)
                    .parts.empty());
}

}  // namespace
}  // namespace kvplane

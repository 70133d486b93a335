#include <atomic>
#include <thread>

#include "levels.h"

namespace kvplane::test {
namespace {

TEST(CpuPlugin, describes_one_device_of_host_memory) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 3);
    EXPECT_EQ(device.table().count(), 1u);
    auto info = structure<kvp_device_info>();
    ASSERT_EQ(device.table().info(0, &info), KVP_OK);
    EXPECT_EQ(kvp::view(info.id), "cpu");
    EXPECT_NE(info.flags & KVP_DEVICE_HOST_MEMORY, 0u);
    EXPECT_EQ(info.flags & KVP_DEVICE_ASYNCHRONOUS, 0u);
    EXPECT_EQ(info.n_threads, 3u);
    EXPECT_GT(info.total_bytes, 0u);
    EXPECT_EQ(device.table().info(1, &info), KVP_ERROR_INVALID);
}

TEST(CpuPlugin, writes_no_more_of_the_info_than_the_reader_has) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 1);
    auto info = structure<kvp_device_info>();
    info.head.struct_size = offsetof(kvp_device_info, flags);
    info.n_threads = 77;
    ASSERT_EQ(device.table().info(0, &info), KVP_OK);
    EXPECT_EQ(info.n_threads, 77u);
    EXPECT_EQ(info.head.struct_size, offsetof(kvp_device_info, flags));
}

TEST(CpuPlugin, refuses_an_instruction_set_that_does_not_exist) {
    try {
        const DeviceHarness device(KVPLANE_CPU_PLUGIN, 1, "mmx");
        FAIL() << "it opened";
    } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find("mmx"), std::string::npos);
    }
}

TEST(CpuPlugin, allocates_aligned_memory_and_copies_regions) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 2);
    kvp_address memory = 0;
    ASSERT_EQ(device.table().alloc(device.device(), 5 << 20, 4096, &memory), KVP_OK);
    EXPECT_EQ(memory % 4096, 0u);
    std::vector<uint8_t> source(1000);
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7);
    std::vector<uint8_t> back(1000);
    std::vector<kvp_copy_region> to, from;
    for (uint64_t i = 0; i < 100; ++i) {
        to.push_back({address_of(source) + i * 10, memory + i * 4096, 10});
        from.push_back({memory + i * 4096, address_of(back) + i * 10, 10});
    }
    to.push_back({0, 0, 0});
    ASSERT_EQ(device.table().copy(device.queue(), to.data(), 101), KVP_OK);
    ASSERT_EQ(device.table().copy(device.queue(), from.data(), 100), KVP_OK);
    EXPECT_EQ(back, source);
    to.back().n_bytes = 1;
    EXPECT_EQ(device.table().copy(device.queue(), to.data(), 101), KVP_ERROR_INVALID);
    device.table().free(device.device(), memory, 5 << 20);
    EXPECT_EQ(device.table().alloc(device.device(), UINT64_MAX - 5, 64, &memory), KVP_ERROR_MEMORY);
    EXPECT_EQ(device.table().alloc(device.device(), 64, 48, &memory), KVP_ERROR_INVALID);
}

TEST(CpuPlugin, raises_events_and_waits_for_them) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 1);
    const kvp_device& table = device.table();
    kvp_event* event = nullptr;
    ASSERT_EQ(table.event_create(device.device(), &event), KVP_OK);
    uint64_t value = 1;
    EXPECT_EQ(table.event_query(event, &value), KVP_OK);
    EXPECT_EQ(value, 0u);
    EXPECT_EQ(table.host_wait(event, 0, 0), KVP_OK);
    EXPECT_EQ(table.host_wait(event, 1, 1000), KVP_ERROR_TIMEOUT);
    EXPECT_EQ(table.signal(device.queue(), event, 5), KVP_OK);
    EXPECT_EQ(table.host_signal(event, 3), KVP_OK);  // it never falls
    EXPECT_EQ(table.event_query(event, &value), KVP_OK);
    EXPECT_EQ(value, 5u);
    std::atomic<bool> raised{false};
    std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        raised = true;
        table.host_signal(event, 9);
    });
    EXPECT_EQ(table.wait(device.queue(), event, 8), KVP_OK);
    EXPECT_TRUE(raised);
    other.join();
    EXPECT_EQ(table.host_wait(event, 9, UINT64_MAX), KVP_OK);
    table.event_destroy(event);
}

TEST(CpuPlugin, refuses_unknown_ops_and_missing_structs) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 1);
    auto answer = structure<kvp_op_answer>();
    EXPECT_EQ(device.support("kvp.teleport/1", nullptr, {}, &answer), KVP_UNSUPPORTED);
    EXPECT_NE(std::string(answer.reason).find("kvp.teleport/1"), std::string::npos);
    EXPECT_EQ(device.support("kvp.rms_norm/1", nullptr, {}, &answer), KVP_UNSUPPORTED);
    kvp_plan* plan = nullptr;
    EXPECT_EQ(device.try_prepare("kvp.teleport/1", nullptr, {}, &plan), KVP_UNSUPPORTED);
    EXPECT_EQ(plan, nullptr);
    for (const char* op :
         {"kvp.kv_write/1", "kvp.attention/1", "kvp.column_statistics/1", "kvp.partial_index/1", "kvp.partial_keys/1",
          "kvp.partial_scores/1", "kvp.select_rows/1", "kvp.page_means/1", "kvp.page_bias/1", "kvp.swiglu/1"}) {
        EXPECT_EQ(device.support(op, nullptr, {}, &answer), KVP_OK) << op;
        EXPECT_EQ(device.try_run(device.prepare(op), {}), KVP_ERROR_INVALID) << op;
    }
}

// Regions of two queues at once: the second runs on its caller alone, and both come out right.
TEST(CpuPlugin, serves_two_queues_at_once) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 4);
    const auto weights = random_weights("q4_1", 256, 128, 1);
    const Tensor weight = weights.tensor();
    const auto attributes = structure<kvp_linear_attributes>();
    const auto plan = device.prepare("kvp.linear/1", &attributes, {weight.get()});
    const auto x = random_floats(40 * 128, 2);
    std::vector<float> expected(40 * 256);
    device.run(plan, {Tensor::f32(x, {40, 128}), Tensor::f32(expected, {40, 256})});
    kvp_queue* second = nullptr;
    ASSERT_EQ(device.table().queue_create(device.device(), 0, &second), KVP_OK);
    std::atomic<int> wrong{0};
    const auto work = [&](kvp_queue* queue) {
        for (int i = 0; i < 200; ++i) {
            std::vector<float> out(expected.size());
            const Tensor operands[] = {Tensor::f32(x, {40, 128}), Tensor::f32(out, {40, 256})};
            const kvp_tensor* pointers[] = {operands[0].get(), operands[1].get()};
            if (device.table().op_enqueue(queue, plan.get(), pointers, 2, nullptr) != KVP_OK || out != expected)
                ++wrong;
        }
    };
    std::thread other(work, second);
    work(device.queue());
    other.join();
    EXPECT_EQ(wrong, 0);
    device.table().queue_destroy(second);
}

TEST(CpuPlugin, gives_the_same_bits_each_time_whichever_thread_does_a_part) {
    const DeviceHarness device(KVPLANE_CPU_PLUGIN, 4);
    const auto weights = random_weights("q8_0", 300, 96, 1);
    const Tensor weight = weights.tensor();
    const auto attributes = structure<kvp_linear_attributes>();
    const auto plan = device.prepare("kvp.linear/1", &attributes, {weight.get()});
    const auto x = random_floats(9 * 96, 2);
    std::vector<float> first(9 * 300);
    device.run(plan, {Tensor::f32(x, {9, 96}), Tensor::f32(first, {9, 300})});
    for (int i = 0; i < 50; ++i) {
        std::vector<float> again(first.size());
        device.run(plan, {Tensor::f32(x, {9, 96}), Tensor::f32(again, {9, 300})});
        ASSERT_EQ(again, first);
    }
}

}  // namespace
}  // namespace kvplane::test

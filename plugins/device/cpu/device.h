// An open CPU, its queues and its events. A queue is synchronous: what is enqueued has run on return.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "isa.h"
#include "kvplane/device.h"
#include "memory.h"
#include "thread_pool.h"

namespace kvplane::cpu {

struct Device {
    Device(uint32_t n_threads, const std::vector<int>& processors)
        : isa(choose_isa()), kernels(*isa.kernels), pool(n_threads, processors) {}

    const Isa isa;
    const Kernels& kernels;
    ThreadPool pool;
    SharedPages weights;
};

// Cosines and sines of the positions of a step: all layers of it ask for the same.
struct RotationTable {
    std::vector<float> frequencies;
    std::vector<int32_t> positions;
    float magnitude = 0;
    std::vector<float> cosines;  // [positions][frequencies]
    std::vector<float> sines;
};

// What ops need between their regions. One op at a time runs on a queue, so they share it.
struct Workspace {
    Scratch<float> floats;
    Scratch<float> more_floats;
    Scratch<float> tiles;
    Scratch<int32_t> ints;
    Scratch<int8_t> bytes;
    Scratch<KeyQuery> key_queries;
    Scratch<ActivationBlock> activations;
    Scratch<ActivationBlock> more_activations;
    Scratch<uint8_t*> places;
    RotationTable rotations;
};

}  // namespace kvplane::cpu

struct kvp_device_object : kvplane::cpu::Device {
    using Device::Device;
};

struct kvp_queue {
    kvplane::cpu::Device& device;
    kvplane::cpu::Workspace workspace;
};

struct kvp_event {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t value = 0;  // only rises
};

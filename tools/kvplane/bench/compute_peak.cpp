#include "bench/compute_peak.h"

#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "bench/median.h"

namespace kvplane::tool {

namespace {

// A loop of so many rounds, and the operations of a round.
struct Work {
    void (*loop)(int64_t rounds) = nullptr;
    double operations = 0;
    int64_t rounds = 8'000'000;  // of a pass: some 20 ms, or the start of the threads counts
};

#if defined(__x86_64__)

#define KVPLANE_REGISTERS                                                                                      \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
        "xmm13", "xmm14", "xmm15"
// Zeroes first: denormal numbers would take longer. `body` stands once a round for each of registers 2 to 13, \\n in it,
// which is more than latency times units of any processor that has the instruction.
#define KVPLANE_LOOP(zero, body, end)                                  \
    asm volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n" zero \
                 "\n.endr\n"                                           \
                 ".balign 64\n1:\n"                                    \
                 ".irp n,2,3,4,5,6,7,8,9,10,11,12,13\n" body           \
                 "\n.endr\n"                                           \
                 "dec %0\njnz 1b\n" end "\n"                           \
                 : "+r"(rounds)                                        \
                 :                                                     \
                 : "cc", KVPLANE_REGISTERS)
#define KVPLANE_VEX_LOOP(body) KVPLANE_LOOP("vpxor %%xmm\\n, %%xmm\\n, %%xmm\\n", body, "vzeroupper")

constexpr double chains = 12;

void int8_avx512(int64_t rounds) {
    KVPLANE_VEX_LOOP("vpdpbusd %%zmm0, %%zmm1, %%zmm\\n");
}
void int8_avxvnni(int64_t rounds) {
    KVPLANE_VEX_LOOP("%{vex%} vpdpbusd %%ymm0, %%ymm1, %%ymm\\n");
}
// As a dot product goes without VNNI: four products of bytes, three sums of words, one of pairs, one of double words.
void int8_avx2(int64_t rounds) {
    KVPLANE_VEX_LOOP(
        "vpmaddubsw %%ymm0, %%ymm1, %%ymm\\n\nvpmaddubsw %%ymm0, %%ymm1, %%ymm\\n\n"
        "vpmaddubsw %%ymm0, %%ymm1, %%ymm\\n\nvpmaddubsw %%ymm0, %%ymm1, %%ymm\\n\n"
        "vpaddw %%ymm0, %%ymm1, %%ymm\\n\nvpaddw %%ymm0, %%ymm1, %%ymm\\n\nvpaddw %%ymm0, %%ymm1, %%ymm\\n\n"
        "vpmaddwd %%ymm0, %%ymm1, %%ymm\\n\nvpaddd %%ymm0, %%ymm1, %%ymm\\n");
}
void f32_avx512(int64_t rounds) {
    KVPLANE_VEX_LOOP("vfmadd231ps %%zmm0, %%zmm1, %%zmm\\n");
}
void f32_avx2(int64_t rounds) {
    KVPLANE_VEX_LOOP("vfmadd231ps %%ymm0, %%ymm1, %%ymm\\n");
}
// A multiplication and an addition apart; every register takes both, in turn with the others.
void f32_sse4(int64_t rounds) {
    KVPLANE_LOOP("pxor %%xmm\\n, %%xmm\\n", "mulps %%xmm0, %%xmm\\n\naddps %%xmm1, %%xmm\\n", "");
}

Work int8_work(const std::string& arch) {
    if (arch.find("v4") != std::string::npos) return {int8_avx512, chains * 2 * 64};
    if (arch.find("avxvnni") != std::string::npos) return {int8_avxvnni, chains * 2 * 32};
    if (arch.find("v3") != std::string::npos) return {int8_avx2, chains * 2 * 4 * 32, 1'000'000};
    return {};
}

Work f32_work(const std::string& arch) {
    if (arch.find("v4") != std::string::npos) return {f32_avx512, chains * 2 * 16};
    if (arch.find("v3") != std::string::npos) return {f32_avx2, chains * 2 * 8};
    if (arch.find("v2") != std::string::npos) return {f32_sse4, chains * 2 * 4};
    return {};
}

#else

Work int8_work(const std::string&) {
    return {};
}
Work f32_work(const std::string&) {
    return {};
}

#endif

// Operations a second of all threads; median of some passes.
double measure(const Work& work, uint32_t threads) {
    if (work.loop == nullptr) return 0;
    using clock = std::chrono::steady_clock;
    constexpr int passes = 5;
    std::vector<double> rates;
    clock::time_point start;
    std::barrier barrier(static_cast<std::ptrdiff_t>(threads), [&]() noexcept {
        const std::chrono::duration<double> took = clock::now() - start;
        if (start != clock::time_point()) {
            rates.push_back(work.operations * static_cast<double>(work.rounds) * threads / took.count());
        }
        start = clock::now();
    });
    {
        std::vector<std::jthread> workers;
        for (uint32_t i = 0; i < threads; ++i) {
            workers.emplace_back([&] {
                for (int pass = 0; pass < passes; ++pass) {
                    barrier.arrive_and_wait();
                    work.loop(work.rounds);
                }
                barrier.arrive_and_wait();
            });
        }
    }
    return median(rates);
}

}  // namespace

ComputePeak measure_compute_peak(const std::string& arch, uint32_t threads) {
    return {measure(int8_work(arch), threads), measure(f32_work(arch), threads)};
}

}  // namespace kvplane::tool

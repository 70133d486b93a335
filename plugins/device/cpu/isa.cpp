#include "isa.h"

#include <cpuid.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "error.h"

namespace kvplane::cpu {
namespace {

// __builtin_cpu_supports of g++ 12 and clang 14 does not know AVX-VNNI: CPUID leaf 7, sub-leaf 1, EAX bit 4.
bool has_avx_vnni() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1u) != 0;
}

bool has_sse4() {
    return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2");
}

bool has_avx2() {  // FMA and F16C came with or before AVX2 on every processor; the builtin does not know F16C
    return has_sse4() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vnni");
}

bool has_avx512_bf16() {  // leaf 7, sub-leaf 1, EAX bit 5
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return has_avx512() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 5 & 1u) != 0;
}

// Zen 4 and 5 start a vdpbf16ps, 64 operations, with every cycle. Intel's cores have AMX for that: on Emerald Rapids it takes
// two cycles (1.34 G/s a core), in which four fused multiply-adds of f32 do 128 operations (5.47 G/s).
bool has_fast_bf16() {
    unsigned eax = 0, vendor[3] = {};
    __get_cpuid(0, &eax, &vendor[0], &vendor[2], &vendor[1]);
    return has_avx512_bf16() && std::memcmp(vendor, "GenuineIntel", sizeof vendor) != 0;
}

const Kernels& kernels_avx512bf16() {
    static const Kernels table = [] {
        Kernels made = kernels_avx512();
        made.prefill = prefill_avx512bf16();
        made.decode[static_cast<size_t>(RowType::F16)] = decode_avx512bf16();
        return made;
    }();
    return table;
}

struct Level {
    Isa isa;
    bool available;
    bool worth_it = true;
};

}  // namespace

Isa choose_isa() {
    __builtin_cpu_init();
    const Level levels[] = {
        {{"avx512bf16", "x86-64-v4 vnni bf16", &kernels_avx512bf16()}, has_avx512_bf16(), has_fast_bf16()},
        {{"avx512", "x86-64-v4 vnni", &kernels_avx512()}, has_avx512()},
        {{"avxvnni", "x86-64-v3 avxvnni", &kernels_avxvnni()}, has_avx2() && has_avx_vnni()},
        {{"avx2", "x86-64-v3", &kernels_avx2()}, has_avx2()},
        {{"sse4", "x86-64-v2", &kernels_sse4()}, has_sse4()},
    };
    const char* wanted = std::getenv("KVPLANE_CPU");
    const bool any = wanted == nullptr || *wanted == '\0';
    for (const Level& level : levels) {
        if (!any && std::string(wanted) != level.isa.name) continue;
        if (level.available && (level.worth_it || !any)) return level.isa;
        if (!any) unsupported("KVPLANE_CPU=" + std::string(wanted) + ", but this processor does not have it");
    }
    if (!any) unsupported("KVPLANE_CPU=" + std::string(wanted) + " is none of sse4, avx2, avxvnni, avx512, avx512bf16");
    unsupported("this processor has no SSE4.2, which the cpu plugin needs");
}

}  // namespace kvplane::cpu

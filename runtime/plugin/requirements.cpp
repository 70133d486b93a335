#include "plugin/requirements.h"

#include <kvplane/base.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kvplane {

namespace {

namespace fs = std::filesystem;

std::string plain(std::string_view name) {
    std::string text;
    for (const char c : name) {
        if (c != '_' && c != '-' && c != '.') text.push_back(c);
    }
    return text;
}

#if defined(__x86_64__)
// CPUID leaf, sub-leaf, register (0-3: eax-edx) and bit, and the register state that the OS must save (XCR0).
// Intel SDM volume 2, CPUID.
struct Feature {
    const char* name;
    unsigned leaf, subleaf, reg, bit;
    unsigned state;
};
constexpr unsigned no_state = 0, avx_state = 0x6, avx512_state = 0xe6;
constexpr Feature features[] = {
    {"sse3", 1, 0, 2, 0, no_state},
    {"ssse3", 1, 0, 2, 9, no_state},
    {"sse41", 1, 0, 2, 19, no_state},
    {"sse42", 1, 0, 2, 20, no_state},
    {"popcnt", 1, 0, 2, 23, no_state},
    {"fma", 1, 0, 2, 12, avx_state},
    {"f16c", 1, 0, 2, 29, avx_state},
    {"avx", 1, 0, 2, 28, avx_state},
    {"bmi1", 7, 0, 1, 3, no_state},
    {"avx2", 7, 0, 1, 5, avx_state},
    {"bmi2", 7, 0, 1, 8, no_state},
    {"avx512f", 7, 0, 1, 16, avx512_state},
    {"avx512dq", 7, 0, 1, 17, avx512_state},
    {"avx512ifma", 7, 0, 1, 21, avx512_state},
    {"avx512cd", 7, 0, 1, 28, avx512_state},
    {"avx512bw", 7, 0, 1, 30, avx512_state},
    {"avx512vl", 7, 0, 1, 31, avx512_state},
    {"avx512vbmi", 7, 0, 2, 1, avx512_state},
    {"avx512vbmi2", 7, 0, 2, 6, avx512_state},
    {"avx512vnni", 7, 0, 2, 11, avx512_state},
    {"avx512bitalg", 7, 0, 2, 12, avx512_state},
    {"avx512vpopcntdq", 7, 0, 2, 14, avx512_state},
    {"avx512fp16", 7, 0, 3, 23, avx512_state},
    {"avxvnni", 7, 1, 0, 4, avx_state},
    {"avx512bf16", 7, 1, 0, 5, avx512_state},
};

// XCR0: which register state the OS saves. Without OSXSAVE (leaf 1, ecx bit 27) it saves none of what is asked here.
unsigned saved_state() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (1u << 27)) == 0) return 0;
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

bool supported(const Feature& feature) {
    unsigned registers[4] = {};
    if (feature.subleaf != 0) {
        unsigned max_subleaf = 0, b, c, d;
        if (!__get_cpuid_count(feature.leaf, 0, &max_subleaf, &b, &c, &d) || max_subleaf < feature.subleaf)
            return false;
    }
    if (!__get_cpuid_count(feature.leaf, feature.subleaf, &registers[0], &registers[1], &registers[2], &registers[3])) {
        return false;
    }
    return ((registers[feature.reg] >> feature.bit) & 1u) != 0 && (saved_state() & feature.state) == feature.state;
}
#endif

// The paths in the linker's cache are NUL-terminated strings among other data: good enough to find one by its end.
fs::path find_in_cache(const std::string& name) {
    std::ifstream file("/etc/ld.so.cache", std::ios::binary);
    const std::string cache{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::string ending = "/" + name + '\0';
    for (size_t at = cache.find(ending); at != std::string::npos; at = cache.find(ending, at + 1)) {
        const size_t before = cache.rfind('\0', at);
        const size_t begin = before == std::string::npos ? 0 : before + 1;
        const fs::path path = cache.substr(begin, at + ending.size() - 1 - begin);
        std::error_code error;
        if (path.is_absolute() && fs::exists(path, error)) return path;
    }
    return {};
}

fs::path find_in_folders(const std::string& folders, const std::string& name) {
    std::istringstream parts(folders);
    for (std::string folder; std::getline(parts, folder, ':');) {
        std::error_code error;
        if (!folder.empty() && fs::exists(fs::path(folder) / name, error)) return fs::path(folder) / name;
    }
    return {};
}

}  // namespace

CpuFeature cpu_feature(std::string_view name) {
#if defined(__x86_64__)
    const auto found = std::ranges::find(features, plain(name), &Feature::name);
    if (found == std::end(features)) return CpuFeature::unknown;
    return supported(*found) ? CpuFeature::present : CpuFeature::absent;
#else
    return plain(name).empty() ? CpuFeature::absent : CpuFeature::unknown;
#endif
}

fs::path find_system_library(const std::string& name) {
    std::error_code error;
    if (fs::path(name).is_absolute()) return fs::exists(name, error) ? fs::path(name) : fs::path();
    const char* const folders = secure_getenv("LD_LIBRARY_PATH");
    if (fs::path path = find_in_folders(folders == nullptr ? "" : folders, name); !path.empty()) return path;
    if (fs::path path = find_in_cache(name); !path.empty()) return path;
    return find_in_folders("/lib64:/usr/lib64:/lib:/usr/lib", name);
}

const char* host_sanitizer() noexcept {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    return "address";
#elif __has_feature(thread_sanitizer)
    return "thread";
#else
    return "none";
#endif
#elif defined(__SANITIZE_ADDRESS__)
    return "address";
#elif defined(__SANITIZE_THREAD__)
    return "thread";
#else
    return "none";
#endif
}

void check_requirements(const Manifest& manifest) {
    const auto refuse = [](const std::string& reason) { throw Error(ErrorKind::plugin, reason); };
    if (manifest.abi_major != KVP_ABI_MAJOR) {
        refuse("built for ABI major " + std::to_string(manifest.abi_major) + ", this program speaks " +
               std::to_string(KVP_ABI_MAJOR) + "; rebuild it against the headers of this version");
    }
    if (manifest.sanitizer != host_sanitizer()) {
        refuse("built with sanitizer \"" + manifest.sanitizer + "\", this program with \"" + host_sanitizer() +
               "\"; both must be the same");
    }
    for (const std::string& name : manifest.cpu) {
        switch (cpu_feature(name)) {
            case CpuFeature::present: break;
            case CpuFeature::absent:
                refuse("needs the CPU feature " + name + ", which this machine does not have");
                break;
            case CpuFeature::unknown:
                refuse("needs the CPU feature " + name + ", which this program does not know how to check");
                break;
        }
    }
    for (const std::string& name : manifest.drivers) {
        if (find_system_library(name).empty()) {
            refuse("needs the driver library " + name + ", which is not installed on this machine");
        }
    }
}

}  // namespace kvplane

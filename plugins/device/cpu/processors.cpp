#include "processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace kvplane::cpu {
namespace {

void lower(std::optional<double>& limit, double quota, double period) {
    if (quota <= 0 || period <= 0) return;  // version 1 writes -1 for none
    limit = std::min(limit.value_or(quota / period), quota / period);
}

template <typename... Values>
bool read(const std::string& path, Values&... values) {
    std::ifstream file(path);
    return static_cast<bool>((file >> ... >> values));
}

}  // namespace

std::vector<int> allowed_processors() {
    std::vector<int> found;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(static_cast<size_t>(cpu), &set)) found.push_back(cpu);
    }
    return found;
}

std::optional<double> processor_quota(const std::string& root, const std::string& group) {
    std::optional<double> limit;
    for (std::string at = group == "/" ? "" : group;; at.resize(at.rfind('/'))) {
        double quota = 0;
        double period = 0;
        if (read(root + at + "/cpu.max", quota, period)) lower(limit, quota, period);  // "max PERIOD" is no number
        if (read(root + "/cpu" + at + "/cpu.cfs_quota_us", quota) &&
            read(root + "/cpu" + at + "/cpu.cfs_period_us", period)) {
            lower(limit, quota, period);
        }
        if (at.find('/') == std::string::npos) return limit;
    }
}

std::optional<double> processor_quota() {
    const std::string root = "/sys/fs/cgroup";
    std::optional<double> limit = processor_quota(root, "/");
    std::ifstream file("/proc/self/cgroup");  // lines NUMBER:CONTROLLERS:GROUP
    for (std::string line; std::getline(file, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        if (controllers != ",," && controllers.find(",cpu,") == std::string::npos) continue;
        if (const auto own = processor_quota(root, line.substr(second + 1))) {
            limit = std::min(limit.value_or(*own), *own);
        }
    }
    return limit;
}

uint32_t default_threads() {
    auto n = static_cast<double>(allowed_processors().size());
    if (const auto quota = processor_quota()) n = std::min(n, std::ceil(*quota));
    return static_cast<uint32_t>(std::max(1.0, n));
}

}  // namespace kvplane::cpu

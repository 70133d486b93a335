#include "bench/facts.h"

#include <sys/utsname.h>

#include <fstream>
#include <map>
#include <thread>

#include "bench/commit.h"
#include "memory/host_memory.h"

namespace kvplane::tool {

namespace {

std::string first_line(const char* path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

// As the kernel calls it; empty where it does not say.
std::string processor_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        const size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "";
}

std::string kernel() {
    utsname names{};
    if (uname(&names) != 0) return "";
    return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

// "q4_1 210, f32 61": how many tensors there are of each type, the type with the most bytes first.
std::string tensor_types(const Model& model) {
    struct Count {
        uint64_t tensors = 0, bytes = 0;
    };
    std::map<std::string_view, Count> types;
    for (const TensorView& tensor : model.tensors()) {
        Count& count = types[tensor_type_info(tensor.type).name];
        ++count.tensors;
        count.bytes += tensor.bytes;
    }
    std::multimap<uint64_t, std::string, std::greater<>> by_bytes;
    for (const auto& [name, count] : types) {
        by_bytes.emplace(count.bytes, std::string(name) + " " + std::to_string(count.tensors));
    }
    std::string text;
    for (const auto& [bytes, part] : by_bytes) text += (text.empty() ? "" : ", ") + part;
    return text;
}

}  // namespace

nlohmann::ordered_json machine_facts() {
    return {{"version", KVPLANE_VERSION},
            {"commit", KVPLANE_COMMIT},
            {"cpu", processor_name()},
            {"cpus", std::thread::hardware_concurrency()},
            {"memory_bytes", physical_memory_bytes()},
            {"kernel", kernel()},
            {"governor", first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")}};
}

nlohmann::ordered_json session_facts(const Session& session) {
    const Model& model = *session.model;
    return {{"model", model.file().path()},
            {"model_bytes", model.file().file_bytes()},
            {"tensor_types", tensor_types(model)},
            {"device", session.engine->device().name()},
            {"instruction_level", session.engine->device().arch()},
            {"threads", session.engine->device().threads()}};
}

}  // namespace kvplane::tool

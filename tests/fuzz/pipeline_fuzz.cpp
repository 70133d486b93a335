// Any bytes as a pipeline (up to the first NUL) and as overrides (the lines after it): either a refusal, or values that
// the schema allows.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/pipeline.h"

namespace {

using namespace kvplane;

OptionSpec alpha() {
    OptionSpec spec;
    spec.path = "alpha";
    spec.type = OptionType::real;
    spec.default_value = 4.0;
    return spec;
}

PipelineRequest request_of(std::string_view lines) {
    PipelineRequest request;
    request.file = "folder/fuzz.toml";
    while (!lines.empty()) {
        const auto end = lines.find('\n');
        request.overrides.emplace_back(lines.substr(0, end));
        lines = end == std::string_view::npos ? std::string_view() : lines.substr(end + 1);
    }
    return request;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const auto nul = input.find('\0');
    try {
        const auto overrides = nul == std::string_view::npos ? std::string_view() : input.substr(nul + 1);
        Pipeline pipeline = Pipeline::parse(input.substr(0, nul), request_of(overrides));
        pipeline.declare_plugin("kv", "infinigen", {alpha()});
        pipeline.check_plugins();
        for (const auto& key : pipeline.schema().keys()) {
            if (!reject_reason(*pipeline.schema().find(key), pipeline.value(key)).empty()) std::abort();
        }
        pipeline.explain();
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::config) std::abort();
    }
    return 0;
}

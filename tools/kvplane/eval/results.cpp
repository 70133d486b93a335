#include "eval/results.h"

#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "bench/commit.h"
#include "observe/terminal.h"

namespace kvplane::tool {

namespace {

constexpr const char* format_key = "kvplane_eval";
constexpr int format = 1;

}  // namespace

Results::Results(const std::string& file) : file_(file) {
    if (file.empty()) return;
    std::string text;
    if (std::filesystem::exists(file)) {
        std::ifstream in(file, std::ios::binary);
        std::ostringstream whole;
        if (in) whole << in.rdbuf();
        if (!in) throw Error(ErrorKind::usage, file + ": cannot be read; is it a file?");
        text = whole.str();
    }
    size_t line_number = 0, other_builds = 0;
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
        ++line_number;
        const nlohmann::json line = nlohmann::json::parse(text.substr(begin, end - begin), nullptr, false);
        const bool ours = line.is_object() && line.value(format_key, nlohmann::json()) == format &&
                          line.contains("key") && line["key"].is_string() && line.contains("result");
        if (!ours) {
            throw Error(ErrorKind::usage, file + ":" + std::to_string(line_number) +
                                              ": this is no line of results; give --resume a new file, or one that "
                                              "kvplane eval wrote");
        }
        if (line.value("commit", nlohmann::json()) != KVPLANE_COMMIT) ++other_builds;
        known_[line["key"].get<std::string>()] = line["result"];
        begin = end + 1;
    }
    if (begin < text.size()) {
        if (!text.substr(begin).starts_with(std::string("{\"") + format_key + "\"")) {
            throw Error(ErrorKind::usage, file + ": this is no file of results; give --resume a new file");
        }
        std::filesystem::resize_file(file, begin);
    }
    if (other_builds > 0) {
        write_stderr("note: " + std::to_string(other_builds) + " results in " + file +
                     " come from another build of kvplane; delete the file to measure anew\n");
    }
    out_.open(file, std::ios::binary | std::ios::app);
    if (!out_) throw Error(ErrorKind::usage, file + ": cannot be written; is its folder there?");
}

const nlohmann::json* Results::find(const std::string& key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? nullptr : &found->second;
}

void Results::add(const std::string& key, const nlohmann::ordered_json& about, nlohmann::json result) {
    if (!file_.empty()) {
        nlohmann::ordered_json line = {{format_key, format}, {"key", key}, {"commit", KVPLANE_COMMIT}};
        line.update(about);
        line["result"] = result;
        out_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n" << std::flush;
        if (!out_) throw Error(ErrorKind::runtime, file_ + ": cannot be written; is the disk full?");
    }
    known_[key] = std::move(result);
}

}  // namespace kvplane::tool

#include "eval/unit_run.h"

#include <chrono>

#include "base/error.h"
#include "eval/fingerprint.h"
#include "observe/progress.h"
#include "observe/terminal.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

uint64_t tokens_done(Engine& engine) {
    return engine.statistics().prefill_tokens + engine.statistics().decode_tokens;
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::optional<std::vector<ContenderResults>> run_units(Matrix& matrix, Results& results, const EngineLimits& limits,
                                                       const std::vector<Unit>& units,
                                                       const std::function<Worker(Engine&)>& make_worker) {
    std::vector<std::vector<std::string>> keys(matrix.size());
    uint64_t total = 0;
    for (size_t i = 0; i < matrix.size(); ++i) {
        const std::string& identity = matrix.identity(i);
        for (const Unit& unit : units) {
            keys[i].push_back(fingerprint(identity + unit.key));
            if (results.find(keys[i].back()) == nullptr) total += unit.tokens;
        }
    }
    Progress progress("eval", total, "tokens");
    uint64_t done = 0;
    std::vector<ContenderResults> all(matrix.size());
    for (size_t i = 0; i < matrix.size(); ++i) {
        std::optional<Matrix::Opened> opened;
        Worker compute;
        for (size_t n = 0; n < units.size(); ++n) {
            const nlohmann::json* known = results.find(keys[i][n]);
            if (known == nullptr) {
                if (!opened) {
                    opened.emplace(matrix.open(i, limits));
                    compute = make_worker(opened->engine());
                }
                Engine& engine = opened->engine();
                const uint64_t before = tokens_done(engine);
                engine.should_stop = [&] {
                    progress.update(done + tokens_done(engine) - before);
                    return caught_signal() != 0;
                };
                const double start = now();
                nlohmann::json result = compute(n);
                if (caught_signal() != 0) {
                    progress.finish();
                    if (results.kept()) write_stderr("interrupted; the same command goes on where it was\n");
                    return std::nullopt;
                }
                result["strategy"] = engine.strategy_id();
                result["settings"] = engine.strategy_summary();
                result["seconds"] = now() - start;
                nlohmann::ordered_json about = {{"pipeline", matrix.contender(i).label}};
                about.update(units[n].about);
                results.add(keys[i][n], about, std::move(result));
                known = results.find(keys[i][n]);
                done += units[n].tokens;
            }
            try {
                all[i].strategy = known->at("strategy").get<std::string>();
                all[i].settings = known->at("settings").get<std::string>();
                all[i].seconds += known->at("seconds").get<double>();
                all[i].units.push_back(*known);
            } catch (const nlohmann::json::exception& error) {
                throw Error(ErrorKind::usage,
                            std::string("a result in the file of --resume is damaged: ") + error.what());
            }
        }
        if (!opened || matrix.size() == 1) continue;
        progress.finish();
        write_stderr(matrix.contender(i).label + ": done, " + std::to_string(i + 1) + " of " +
                     std::to_string(matrix.size()) + "\n");
    }
    return all;
}

}  // namespace kvplane::tool

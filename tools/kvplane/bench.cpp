// kvplane bench: speed in llama-bench's cells. ppN: a prompt of N tokens. tgN@DEPTHxSEQUENCES: N tokens decoded after
// DEPTH (0 if left out) in each of SEQUENCES (1) sequences at once; tokens a second of all of them together.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <random>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "command.h"
#include "session.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct BenchOptions {
    ModelOptions model;
    std::string cells = "pp512,tg64";
    int64_t repeats = 5;
    bool json = false;
};

struct Cell {
    std::string name;
    bool prefill = false;
    int64_t tokens = 0;
    int64_t depth = 0;
    int64_t sequences = 1;
};

struct Result {
    Cell cell;
    std::vector<double> rates;  // tokens a second
};

// Takes `mark` and the number from `least` to `most` that follows it off the front of `text`; false: they are not
// there.
bool take_number(std::string_view& text, std::string_view mark, int64_t least, int64_t most, int64_t& number) {
    if (!text.starts_with(mark)) return false;
    const char* const begin = text.data() + mark.size();
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
    if (error != std::errc() || *begin == '-' || number < least || number > most) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
}

Cell parse_cell(const std::string& name) {
    constexpr int64_t most_tokens = 9'999'999, most_sequences = 999;
    Cell cell;
    cell.name = name;
    std::string_view rest = name;
    if (take_number(rest, "pp", 1, most_tokens, cell.tokens)) {
        cell.prefill = true;
    } else if (take_number(rest, "tg", 1, most_tokens, cell.tokens)) {
        take_number(rest, "@", 0, most_tokens, cell.depth);
        take_number(rest, "x", 1, most_sequences, cell.sequences);
    }
    if (cell.tokens == 0 || !rest.empty()) {
        throw Error(ErrorKind::usage, "--cells: \"" + name + "\" is neither ppN nor tgN@DEPTHxSEQUENCES");
    }
    return cell;
}

std::vector<Cell> parse_cells(const std::string& text) {
    std::vector<Cell> cells;
    std::istringstream list(text);
    for (std::string name; std::getline(list, name, ',');) cells.push_back(parse_cell(name));
    if (cells.empty()) throw Error(ErrorKind::usage, "--cells is empty; for example pp512,tg64,tg32@4096x4");
    return cells;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Most tokens that a sequence decodes while the prompts of the others are still read, in chunks of a page at least.
int64_t decoded_meanwhile(const Cell& cell) {
    return (cell.sequences - 1) * (cell.depth / 64 + 2);
}

GenerationRequest random_request(const Engine& engine, int64_t prompt, int64_t new_tokens, uint32_t seed) {
    std::mt19937 generator(seed);
    GenerationRequest request;
    const uint32_t vocabulary = engine.shape().vocabulary;
    for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>(generator() % vocabulary));
    request.max_tokens = new_tokens;
    return request;
}

Result measure_prefill(Engine& engine, const Cell& cell, int64_t repeats) {
    Result result{cell, {}};
    for (int64_t i = -1; i < repeats && caught_signal() == 0; ++i) {  // the first one warms up
        const uint64_t id = engine.submit(random_request(engine, cell.tokens, 1, 1));
        const auto start = std::chrono::steady_clock::now();
        while (caught_signal() == 0 && engine.step()) {
        }
        if (i >= 0) result.rates.push_back(static_cast<double>(cell.tokens) / seconds_since(start));
        engine.forget(id);
    }
    return result;
}

Result measure_decode(Engine& engine, const Cell& cell, int64_t repeats) {
    Result result{cell, {}};
    const int64_t warm_up = 2;
    std::vector<uint64_t> ids;
    for (int64_t i = 0; i < cell.sequences; ++i) {
        const int64_t new_tokens = 1 + warm_up + repeats * cell.tokens + decoded_meanwhile(cell);
        ids.push_back(engine.submit(
            random_request(engine, std::max<int64_t>(1, cell.depth), new_tokens, static_cast<uint32_t>(i + 1))));
    }
    const uint64_t prompts = static_cast<uint64_t>(cell.sequences * std::max<int64_t>(1, cell.depth));
    const uint64_t before = engine.statistics().prefill_tokens;
    while (engine.statistics().prefill_tokens - before < prompts && caught_signal() == 0 && engine.step()) {
    }
    for (int64_t i = 0; i < warm_up; ++i) engine.step();
    for (int64_t i = 0; i < repeats && caught_signal() == 0; ++i) {
        const uint64_t decoded = engine.statistics().decode_tokens;
        const auto start = std::chrono::steady_clock::now();
        for (int64_t step = 0; step < cell.tokens && caught_signal() == 0 && engine.step(); ++step) {
        }
        const auto made = static_cast<double>(engine.statistics().decode_tokens - decoded);
        if (made > 0) result.rates.push_back(made / seconds_since(start));
    }
    for (uint64_t id : ids) engine.forget(id);
    return result;
}

int bench(const BenchOptions& options) {
    const std::vector<Cell> cells = parse_cells(options.cells);
    int64_t sequences = 1, context = 0;
    for (const Cell& cell : cells) {
        sequences = std::max(sequences, cell.sequences);
        const int64_t length =
            cell.prefill ? cell.tokens + 1 : cell.depth + 4 + options.repeats * cell.tokens + decoded_meanwhile(cell);
        context = std::max(context, length);
    }
    Session session = open_session(options.model, sequences, context);
    Engine& engine = *session.engine;
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    if (!options.json) std::cout << "| cell | tok/s median | min | max | runs |\n|---|---|---|---|---|\n";
    for (const Cell& cell : cells) {
        Result result = cell.prefill ? measure_prefill(engine, cell, options.repeats)
                                     : measure_decode(engine, cell, options.repeats);
        if (caught_signal() != 0) return 128 + caught_signal();
        if (result.rates.empty()) throw Error(ErrorKind::runtime, "cell " + cell.name + " made no tokens");
        std::sort(result.rates.begin(), result.rates.end());
        const size_t n = result.rates.size();
        const double median = n % 2 == 1 ? result.rates[n / 2] : (result.rates[n / 2 - 1] + result.rates[n / 2]) / 2;
        if (options.json) {
            rows.push_back({{"cell", cell.name},
                            {"median", median},
                            {"min", result.rates.front()},
                            {"max", result.rates.back()},
                            {"runs", n}});
        } else {
            std::cout << std::fixed << std::setprecision(1) << "| " << cell.name << " | " << median << " | "
                      << result.rates.front() << " | " << result.rates.back() << " | " << n << " |" << std::endl;
        }
    }
    if (options.json) {
        print_json({{"strategy", engine.strategy_id()},
                    {"device", engine.device().name()},
                    {"threads", engine.device().threads()},
                    {"results", rows}});
    }
    return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
    auto options = std::make_shared<BenchOptions>();
    CLI::App* command = app.add_subcommand("bench", "Measure speed");
    add_model_options(*command, options->model);
    command->add_option("--cells", options->cells, "what to measure: ppN and tgN@DEPTHxSEQUENCES, with commas");
    command->add_option("-r,--repeats", options->repeats, "runs of each cell")->check(CLI::Range(1, 1000));
    command->add_flag("--json", options->json, "one JSON object on standard output");
    command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

}  // namespace kvplane::tool

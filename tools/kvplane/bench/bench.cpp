// kvplane bench: speed in llama-bench's cells, of one pipeline or of several in turn.
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "bench/cell.h"
#include "bench/cell_run.h"
#include "bench/compare.h"
#include "bench/compute_peak.h"
#include "bench/facts.h"
#include "bench/median.h"
#include "bench/profile.h"
#include "bench/read_limit.h"
#include "bench/report.h"
#include "command.h"
#include "observe/log.h"
#include "session.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

struct BenchOptions {
    ModelOptions model;
    std::vector<std::string> pipelines;
    std::string cells = "pp512,tg64";
    int64_t repeats = 5;
    bool interleave = false;
    bool profile = false;
    std::string format = "md";
    bool json = false;
};

struct Contender {
    std::string name;
    Session session;
};

// The cells that are ready at the same time, on every pipeline; their runs take turns.
using Turns = std::vector<Cell>;

std::vector<Turns> plan(const std::vector<Cell>& cells, bool interleave) {
    if (interleave) return {cells};
    std::vector<Turns> plan;
    for (const Cell& cell : cells) plan.push_back({cell});
    return plan;
}

// "infinigen" for configs/infinigen.toml; the whole path where two files share a name.
std::vector<std::string> names_of(const std::vector<std::string>& files) {
    std::vector<std::string> names;
    for (const std::string& file : files) names.push_back(std::filesystem::path(file).stem().string());
    if (std::set<std::string>(names.begin(), names.end()).size() < names.size()) return files;
    return names;
}

std::vector<Contender> open_contenders(const BenchOptions& options, const std::vector<Turns>& plan,
                                       OpProfile* profile) {
    int64_t sequences = 1, context = 0;
    for (const Turns& turns : plan) {
        int64_t held = 0;
        bool prefill = false;
        for (const Cell& cell : turns) {
            held += cell.prefill ? 0 : cell.sequences;
            prefill = prefill || cell.prefill;
            context = std::max(context, CellRun::length(cell, options.repeats));
        }
        sequences = std::max(sequences, held + (prefill ? 1 : 0));
    }
    std::vector<std::string> files = options.pipelines;
    if (files.empty()) files.emplace_back();
    const std::vector<std::string> names = names_of(files);
    std::vector<Contender> contenders;
    for (size_t i = 0; i < files.size(); ++i) {
        ModelOptions model = options.model;
        model.pipeline.file = files[i];
        contenders.push_back(
            {files[i].empty() ? "defaults" : names[i], open_session(model, {sequences, context, profile})});
    }
    return contenders;
}

// What is measured between the runs, and how the ops are watched.
struct Instruments {
    ReadLimit read_limit;
    ComputePeak compute;
    OpProfile* profile;  // null: none
};

struct Entry {
    const Contender* contender;
    std::unique_ptr<CellRun> run;
    nlohmann::ordered_json profile;
};

// The profile is of this run alone.
void run_profiled(Entry& entry, const Instruments& instruments, double read_limit) {
    entry.run->run_once([&] { instruments.profile->clear(); });
    if (caught_signal() != 0) return;
    const auto tokens = static_cast<double>(entry.run->tokens_of_a_run());
    entry.profile = profile_report(*instruments.profile, tokens / entry.run->rates().back(), tokens,
                                   {read_limit, instruments.compute});
}

void measure(const Turns& turns, const std::vector<Contender>& contenders, int64_t repeats, Instruments& instruments,
             Report& report) {
    std::vector<Entry> entries;
    for (const Cell& cell : turns) {
        for (const Contender& contender : contenders) {
            entries.push_back({&contender, CellRun::make(contender.session, cell, repeats), nullptr});
            const auto start = std::chrono::steady_clock::now();
            entries.back().run->prepare();  // minutes, for a long context on a slow machine
            const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
            log("bench").info(contender.name, ": ", cell.name, " is ready after ", seconds.count(), " s");
        }
    }
    std::vector<double> read_limits = {instruments.read_limit.measure()};
    for (int64_t round = 0; round < repeats && caught_signal() == 0; ++round) {
        for (Entry& entry : entries) {
            if (instruments.profile != nullptr && round == repeats - 1) {
                run_profiled(entry, instruments, median(read_limits));
            } else {
                entry.run->run_once([] {});
            }
        }
        read_limits.push_back(instruments.read_limit.measure());
    }
    if (caught_signal() != 0) return;
    for (Entry& entry : entries) {
        report.add(result_row(entry.contender->name, entry.contender->session, *entry.run, read_limits),
                   std::move(entry.profile));
    }
}

int bench(const BenchOptions& options) {
    const std::string format = options.json ? "json" : options.format;
    if (options.profile && format == "csv") {
        throw Error(ErrorKind::usage, "--profile does not fit into lines of csv; use -o md, json or jsonl");
    }
    const std::vector<Turns> turns = plan(parse_cells(options.cells), options.interleave);
    std::optional<OpProfile> profile;
    if (options.profile) profile.emplace();
    const std::vector<Contender> contenders = open_contenders(options, turns, profile ? &*profile : nullptr);
    const Session& first = contenders.front().session;
    nlohmann::ordered_json facts = machine_facts();
    facts.update(session_facts(first));
    Report report(format, std::move(facts));
    const Device& device = first.engine->device();
    Instruments instruments{ReadLimit(device.threads()), {}, profile ? &*profile : nullptr};
    if (profile) instruments.compute = measure_compute_peak(device.arch(), device.threads());
    for (const Turns& together : turns) {
        measure(together, contenders, options.repeats, instruments, report);
        if (caught_signal() != 0) return 128 + caught_signal();
    }
    report.finish();
    return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
    auto options = std::make_shared<BenchOptions>();
    CLI::App* command = app.add_subcommand("bench", "Measure speed");
    command
        ->add_option("-p,--pipeline", options->pipelines,
                     "pipeline file (TOML); may be repeated: their runs take turns. Without it the defaults hold")
        ->expected(1)
        ->take_all();
    add_model_options(*command, options->model, false);
    command->add_option("--cells", options->cells, "what to measure: ppN and tgN@DEPTHxSEQUENCES, with commas");
    command->add_option("-r,--repeats", options->repeats, "runs of each cell")->check(CLI::Range(1, 1000));
    command->add_flag("--interleave", options->interleave,
                      "a run of every cell, and again, instead of all runs of a cell; keeps all contexts in memory");
    command->add_flag(
        "--profile", options->profile,
        "time, bytes and operations of every op in the last run of each cell, against the machine's ceilings");
    command->add_option("-o,--output", options->format, "md, csv, json or jsonl")
        ->check(CLI::IsMember({"md", "csv", "json", "jsonl"}));
    command->add_flag("--json", options->json, "the same as -o json");
    command->require_subcommand(0, 1);
    add_bench_compare(*command, action);
    command->callback([options, command, &action] {
        if (command->get_subcommands().empty()) action = [options] { return bench(*options); };
    });
}

}  // namespace kvplane::tool

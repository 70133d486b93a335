// kvplane trace replay: what other rules and budgets would have read of a recorded run, without the model.
#include <algorithm>
#include <iostream>
#include <map>

#include "base/error.h"
#include "common.h"
#include "eval/table.h"
#include "trace/rule.h"
#include "trace/trace.h"
#include "trace/trace_file.h"

namespace kvplane::tool {

namespace {

struct ReplayOptions {
    std::string file;
    std::vector<std::string> rules = {"recorded"};
    std::vector<double> shares = {0.05, 0.1, 0.2};
    RuleSetting setting;
    double resident = 0.1;
    bool json = false;
};

// Groups of one layer and KV head that stay near the device, the least recently used out first.
class ResidentGroups {
public:
    bool touch(int32_t group, uint64_t now) {
        const bool hit = !last_use_.insert({group, now}).second;
        last_use_[group] = now;
        return hit;
    }
    void shrink(size_t capacity) {
        while (last_use_.size() > capacity) {
            last_use_.erase(std::min_element(last_use_.begin(), last_use_.end(),
                                             [](const auto& a, const auto& b) { return a.second < b.second; }));
        }
    }

private:
    std::map<int32_t, uint64_t> last_use_;
};

// One rule with one budget on its way through the trace.
struct Contest {
    std::string name;
    double share;
    std::unique_ptr<Rule> rule;
    double looks = 0, mass = 0, heads = 0, rows = 0, past = 0, groups = 0, hits = 0;
    std::map<std::pair<uint32_t, size_t>, ResidentGroups> resident;
    uint64_t now = 0;

    void look(const TraceSample& sample, const TraceHeader& header, double resident_share) {
        const std::vector<std::vector<int32_t>> chosen = rule->select(sample);
        const size_t n = sample.position + size_t{1}, group = header.heads / header.kv_heads;
        ++looks;
        ++now;
        past += static_cast<double>(n * header.kv_heads);
        for (size_t head = 0; head < header.heads && header.scores; ++head) {
            double sum = 0;
            for (int32_t token : chosen[head / group]) sum += sample.weights[head * n + static_cast<size_t>(token)];
            mass += sum;
            ++heads;
        }
        const auto all_groups = (n + header.group_tokens - 1) / header.group_tokens;
        const auto capacity = static_cast<size_t>(resident_share * static_cast<double>(all_groups));
        for (size_t kv_head = 0; kv_head < chosen.size(); ++kv_head) {
            rows += static_cast<double>(chosen[kv_head].size());
            ResidentGroups& near = resident[{sample.layer, kv_head}];
            int32_t before = -1;
            for (int32_t token : chosen[kv_head]) {
                const int32_t at = token / static_cast<int32_t>(header.group_tokens);
                if (at == before) continue;
                before = at;
                ++groups;
                hits += near.touch(at, now) ? 1 : 0;
            }
            near.shrink(capacity);
        }
    }
};

struct Recorded {
    double steps = 0, to_device = 0, to_host = 0, evicted = 0;
    double evicted_of_prompt = 0;
};

std::vector<std::string> cells_of(const Contest& contest, const TraceHeader& header) {
    const double layer_bytes = header.row_bytes;
    return {contest.name,
            Rule::has_budget(contest.name) ? fixed(100 * contest.share, 1) + " %" : "",
            fixed(100 * contest.rows / contest.past, 1) + " %",
            header.scores ? fixed(contest.mass / contest.heads, 4) : "",
            fixed(contest.rows / contest.looks * layer_bytes / 1024, 1),
            fixed(100 * contest.hits / contest.groups, 1) + " %",
            fixed((contest.groups - contest.hits) / contest.looks * layer_bytes * header.group_tokens / 1024, 1)};
}

nlohmann::ordered_json json_of(const Contest& contest, const TraceHeader& header) {
    nlohmann::ordered_json json = {{"rule", contest.name}};
    if (Rule::has_budget(contest.name)) json["share"] = contest.share;
    json["share_read"] = contest.rows / contest.past;
    if (header.scores) json["kept_attention_mass"] = contest.mass / contest.heads;
    json["bytes_per_look"] = contest.rows / contest.looks * header.row_bytes;
    json["hit_rate"] = contest.hits / contest.groups;
    json["bytes_moved_per_look"] =
        (contest.groups - contest.hits) / contest.looks * header.row_bytes * header.group_tokens;
    return json;
}

std::vector<Contest> contests_of(const ReplayOptions& options, const TraceHeader& header) {
    std::vector<Contest> contests;
    for (const std::string& name : options.rules) {
        if (Rule::needs_scores(name) && !header.scores) {
            throw Error(ErrorKind::usage,
                        "--rule " + name +
                            " chooses by attention weights, which this trace does not hold; record it with --scores");
        }
        for (double share : Rule::has_budget(name) ? options.shares : std::vector<double>{1}) {
            RuleSetting setting = options.setting;
            setting.share = share;
            Contest contest;
            contest.name = name;
            contest.share = share;
            contest.rule = Rule::make(name, header, setting);
            contests.push_back(std::move(contest));
        }
    }
    return contests;
}

int replay(const ReplayOptions& options) {
    TraceHeader header;
    std::vector<Contest> contests;
    Recorded recorded;
    read_trace(options.file, [&](const TraceHeader& found) {
        header = found;
        contests = contests_of(options, header);
        TraceVisitor visitor;
        visitor.on_sample = [&](const TraceSample& sample) {
            for (Contest& contest : contests) contest.look(sample, header, options.resident);
        };
        visitor.on_step = [&](const TraceStep& step) {
            if (step.position < header.prompt_tokens) {
                recorded.evicted_of_prompt += static_cast<double>(step.rows_evicted);
                return;
            }
            ++recorded.steps;
            recorded.to_device += static_cast<double>(step.bytes_to_device);
            recorded.to_host += static_cast<double>(step.bytes_to_host);
            recorded.evicted += static_cast<double>(step.rows_evicted);
        };
        return visitor;
    });
    if (contests.front().looks == 0) throw Error(ErrorKind::usage, options.file + ": holds no look at a layer");
    if (options.json) {
        nlohmann::ordered_json rules = nlohmann::ordered_json::array();
        for (const Contest& contest : contests) rules.push_back(json_of(contest, header));
        print_json({{"strategy", header.strategy},
                    {"strategy_settings", header.settings},
                    {"prompt_tokens", header.prompt_tokens},
                    {"steps", recorded.steps},
                    {"looks", contests.front().looks},
                    {"bytes_to_device", recorded.to_device},
                    {"bytes_to_host", recorded.to_host},
                    {"rows_evicted", recorded.evicted},
                    {"rows_evicted_after_prompt", recorded.evicted_of_prompt},
                    {"rules", rules}});
        return 0;
    }
    Table table({"rule", "budget", "rows read", "mass kept", "KiB a look", "hit rate", "KiB moved a look"});
    for (const Contest& contest : contests) table.add(cells_of(contest, header));
    std::cout << "recorded: " << header.strategy << ", " << recorded.steps << " steps, " << contests.front().looks
              << " looks; to device " << fixed(recorded.to_device / 1024, 0) << " KiB, to host "
              << fixed(recorded.to_host / 1024, 0) << " KiB, " << recorded.evicted
              << " rows of a KV head evicted in all layers, and " << recorded.evicted_of_prompt
              << " at the prompt's end\n\n"
              << table.text();
    return 0;
}

}  // namespace

void add_trace_replay(CLI::App& trace, Action& action) {
    auto options = std::make_shared<ReplayOptions>();
    CLI::App* command = trace.add_subcommand("replay", "Try rules and budgets on a recorded run, without the model");
    command->add_option("file", options->file, "trace that kvplane trace record wrote")->required();
    command
        ->add_option("--rule", options->rules,
                     "recorded, dense, window, top, threshold, pages, heavy-hitters, snap; with commas")
        ->delimiter(',')
        ->take_all()
        ->check(CLI::IsMember(Rule::names()));
    command->add_option("--share", options->shares, "budgets: shares of the tokens so far; with commas")
        ->delimiter(',')
        ->take_all()
        ->check(CLI::Range(0.0, 1.0));
    command->add_option("--sinks", options->setting.sinks, "first tokens that always stay (window, top, threshold)")
        ->check(CLI::Range(0, 1 << 24));
    command
        ->add_option("--recent", options->setting.recent,
                     "newest tokens that always stay (top, threshold), looks that vote (snap)")
        ->check(CLI::Range(1, 1 << 24));
    command->add_option("--alpha", options->setting.alpha, "how far below the best score a token may be (threshold)")
        ->check(CLI::NonNegativeNumber);
    command->add_option("--page", options->setting.page, "tokens of a page (pages)")->check(CLI::Range(1, 1 << 16));
    command->add_option("--resident", options->resident, "share of the groups that stay near the device (LRU)")
        ->check(CLI::Range(0.0, 1.0));
    command->add_flag("--json", options->json, "one JSON object on standard output");
    command->callback([options, &action] { action = [options] { return replay(*options); }; });
}

}  // namespace kvplane::tool

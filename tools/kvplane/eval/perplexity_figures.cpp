#include "eval/perplexity_figures.h"

#include <utility>

#include "base/error.h"
#include "eval/chart.h"
#include "eval/table.h"

namespace kvplane::tool {

namespace {

// First and last row of a place, in the window.
std::pair<int64_t, int64_t> rows_of_place(const Windows& windows, int64_t place, int64_t places) {
    const auto border = [&](int64_t i) { return windows.prompt + (i * windows.rows() + places - 1) / places; };
    return {border(place), border(place + 1)};
}

}  // namespace

PerplexityFigures perplexity_figures(const ContenderResults& results, size_t places) {
    PerplexityFigures figures(places);
    try {
        for (const nlohmann::json& unit : results.units) {
            for (const nlohmann::json& window : unit.at("windows")) {
                Losses losses(places);
                losses.by_place = window.at("loss").get<std::vector<double>>();
                losses.counts = window.at("tokens").get<std::vector<int64_t>>();
                losses.by_place.resize(places);
                losses.counts.resize(places);
                figures.by_window.push_back(losses.perplexity());
                figures.losses.add(losses);
            }
            figures.usage.add(Usage::from_json(unit.at("usage")));
        }
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::usage, std::string("a result in the file of --resume is damaged: ") + error.what());
    }
    return figures;
}

nlohmann::ordered_json perplexity_report(const Contender& contender, const ContenderResults& results,
                                         const PerplexityFigures& figures, const PerplexityFigures& first,
                                         const Windows& windows) {
    const double perplexity = figures.losses.perplexity();
    nlohmann::ordered_json curve = nlohmann::ordered_json::array();
    const auto places = static_cast<int64_t>(figures.losses.counts.size());
    for (int64_t place = 0; place < places; ++place) {
        const auto i = static_cast<size_t>(place);
        const auto [begin, end] = rows_of_place(windows, place, places);
        if (figures.losses.counts[i] == 0) continue;
        const double loss = figures.losses.by_place[i] / static_cast<double>(figures.losses.counts[i]);
        curve.push_back(
            {{"from", begin}, {"to", end}, {"tokens", figures.losses.counts[i]}, {"perplexity", std::exp(loss)}});
    }
    return {{"label", contender.label},
            {"series", contender.series},
            {"pipeline", contender.file},
            {"overrides", contender.overrides},
            {"strategy", results.strategy},
            {"strategy_settings", results.settings},
            {"perplexity", perplexity},
            {"relative_perplexity", perplexity / first.losses.perplexity()},
            {"tokens", figures.losses.count()},
            {"perplexity_by_window", figures.by_window},
            {"curve", curve},
            {"prefill_tokens_per_second",
             figures.usage.prefill_seconds > 0 ? figures.usage.prefill_tokens / figures.usage.prefill_seconds : 0},
            {"decode_tokens_per_second",
             figures.usage.decode_seconds > 0 ? figures.usage.decode_tokens / figures.usage.decode_seconds : 0},
            {"seconds", results.seconds},
            {"kv", figures.usage.report(first.usage)}};
}

std::string perplexity_tables(const nlohmann::ordered_json& pipelines, const std::vector<PerplexityFigures>& figures) {
    std::vector<std::string> headings = {"pipeline", "perplexity", "against first"};
    for (std::string& heading : usage_headings()) headings.push_back(std::move(heading));
    Table table(std::move(headings));
    for (size_t i = 0; i < figures.size(); ++i) {
        std::vector<std::string> cells = {
            pipelines[i]["label"], fixed(figures[i].losses.perplexity(), 4),
            i == 0 ? "" : percent_change(figures[i].losses.perplexity(), figures[0].losses.perplexity())};
        for (std::string& cell : usage_cells(figures[i].usage, figures[0].usage)) cells.push_back(std::move(cell));
        table.add(std::move(cells));
    }
    std::string text = table.text();
    if (pipelines[0]["curve"].size() < 2) return text;
    headings = {"perplexity at row"};
    for (const auto& place : pipelines[0]["curve"]) headings.push_back(place["from"].dump() + "–" + place["to"].dump());
    Table curves(std::move(headings));
    for (const auto& pipeline : pipelines) {
        std::vector<std::string> cells = {pipeline["label"]};
        for (const auto& place : pipeline["curve"]) cells.push_back(fixed(place["perplexity"], 2));
        curves.add(std::move(cells));
    }
    return text + "\n" + curves.text();
}

void draw_perplexity(const std::string& file, const nlohmann::ordered_json& report, const std::string& notes) {
    if (file.empty()) return;
    ChartPanel size{"against relative KV size", "bytes read a token, % of the first", "perplexity", true, {}};
    ChartPanel place{"against the place in the window", "row", "perplexity", false, {}};
    for (const auto& pipeline : report["pipelines"]) {
        const std::string series = pipeline["series"], label = pipeline["label"];
        const double relative = pipeline["kv"]["relative_size"];
        size.points.push_back({series, label, 100 * relative, pipeline["perplexity"]});
        for (const auto& at : pipeline["curve"]) {
            place.points.push_back(
                {label, label, (at["from"].get<double>() + at["to"].get<double>()) / 2, at["perplexity"]});
        }
    }
    write_chart(file, "Perplexity, context " + report["context"].dump(), {size, place}, notes);
}

}  // namespace kvplane::tool

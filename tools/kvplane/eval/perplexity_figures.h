// What comes out of a perplexity run, and the ways to tell it: a report, tables, a chart.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/contender.h"
#include "eval/perplexity_windows.h"
#include "eval/unit_run.h"
#include "eval/usage.h"

namespace kvplane::tool {

// Losses and their numbers, in all and by the place of the row in its window.
struct Losses {
    explicit Losses(size_t places) : by_place(places), counts(places) {}

    double sum() const {
        double sum = 0;
        for (double loss : by_place) sum += loss;
        return sum;
    }
    int64_t count() const {
        int64_t count = 0;
        for (int64_t one : counts) count += one;
        return count;
    }
    double perplexity() const { return std::exp(sum() / static_cast<double>(count())); }
    void add(const Losses& other) {
        for (size_t i = 0; i < counts.size(); ++i) {
            by_place[i] += other.by_place[i];
            counts[i] += other.counts[i];
        }
    }

    std::vector<double> by_place;
    std::vector<int64_t> counts;
};

// Of one pipeline.
struct PerplexityFigures {
    explicit PerplexityFigures(size_t places) : losses(places) {}
    Losses losses;
    std::vector<double> by_window;
    Usage usage;
};

// Throws Error(usage): results that are damaged.
PerplexityFigures perplexity_figures(const ContenderResults& results, size_t places);

// `first`: what it is compared with.
nlohmann::ordered_json perplexity_report(const Contender& contender, const ContenderResults& results,
                                         const PerplexityFigures& figures, const PerplexityFigures& first,
                                         const Windows& windows);

// `pipelines`: their reports.
std::string perplexity_tables(const nlohmann::ordered_json& pipelines, const std::vector<PerplexityFigures>& figures);

// `report`: the whole one. Nothing if no file is named. Throws Error(runtime).
void draw_perplexity(const std::string& file, const nlohmann::ordered_json& report, const std::string& notes);

}  // namespace kvplane::tool

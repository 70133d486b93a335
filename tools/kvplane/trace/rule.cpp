#include "trace/rule.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace kvplane::tool {

namespace {

using Tokens = std::vector<int32_t>;

int64_t budget(const RuleSetting& setting, const TraceSample& sample) {
    const int64_t n = int64_t{sample.position} + 1;
    return std::clamp<int64_t>(std::llround(setting.share * static_cast<double>(n)), 1, n);
}

// What each KV head's tokens are worth: the best of the group's heads counts.
std::vector<std::vector<float>> best_of_group(const TraceHeader& header, const TraceSample& sample) {
    const size_t n = sample.position + size_t{1}, group = header.heads / header.kv_heads;
    std::vector<std::vector<float>> worth(header.kv_heads, std::vector<float>(n, 0));
    for (size_t head = 0; head < header.heads; ++head) {
        for (size_t token = 0; token < n; ++token) {
            float& best = worth[head / group][token];
            best = std::max(best, sample.weights[head * n + token]);
        }
    }
    return worth;
}

// The `count` greatest of worth, ties to the lower number; in order.
std::vector<int32_t> greatest(const std::vector<float>& worth, int64_t count) {
    std::vector<int32_t> order(worth.size());
    std::iota(order.begin(), order.end(), 0);
    count = std::clamp<int64_t>(count, 0, static_cast<int64_t>(order.size()));
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
        const float x = worth[static_cast<size_t>(a)], y = worth[static_cast<size_t>(b)];
        return x > y || (x == y && a < b);
    });
    order.resize(static_cast<size_t>(count));
    std::sort(order.begin(), order.end());
    return order;
}

// First and last tokens that always stay, the newest first of all, within the budget.
std::pair<int64_t, int64_t> forced(const RuleSetting& setting, int64_t n, int64_t count) {
    const int64_t recent = std::clamp<int64_t>(setting.recent, 1, count);
    const int64_t sinks = std::min({setting.sinks, count - recent, n - recent});
    return {std::max<int64_t>(0, sinks), recent};
}

class Recorded : public Rule {
    std::vector<Tokens> select(const TraceSample& sample) override { return sample.visible; }
};

class Dense : public Rule {
    std::vector<Tokens> select(const TraceSample& sample) override {
        Tokens all(sample.position + size_t{1});
        std::iota(all.begin(), all.end(), 0);
        return std::vector<Tokens>(sample.visible.size(), all);
    }
};

class Window : public Rule {
public:
    explicit Window(const RuleSetting& setting) : setting_(setting) {}
    std::vector<Tokens> select(const TraceSample& sample) override {
        const int64_t n = int64_t{sample.position} + 1, count = budget(setting_, sample);
        const int64_t sinks = std::min(setting_.sinks, count - 1);
        Tokens tokens;
        for (int64_t token = 0; token < n; ++token) {
            if (token < sinks || token >= n - (count - sinks)) tokens.push_back(static_cast<int32_t>(token));
        }
        return std::vector<Tokens>(sample.visible.size(), tokens);
    }

private:
    RuleSetting setting_;
};

class Top : public Rule {
public:
    Top(const TraceHeader& header, const RuleSetting& setting) : header_(header), setting_(setting) {}
    std::vector<Tokens> select(const TraceSample& sample) override {
        const int64_t n = int64_t{sample.position} + 1, count = budget(setting_, sample);
        const auto [sinks, recent] = forced(setting_, n, count);
        std::vector<Tokens> chosen;
        for (std::vector<float>& worth : best_of_group(header_, sample)) {
            for (int64_t token = 0; token < n; ++token) {
                if (token < sinks || token >= n - recent) worth[static_cast<size_t>(token)] = 2;  // above every weight
            }
            chosen.push_back(greatest(worth, count));
        }
        return chosen;
    }

private:
    TraceHeader header_;
    RuleSetting setting_;
};

// InfiniGen's with true scores: as many tokens as lie within alpha of the best score, the mean over the KV heads rounded
// down, at most the budget; the best ones, sinks and recent tokens always. Weights of a head are exp(score) up to a factor, so that
// alpha below the best score is exp(-alpha) of the greatest weight.
class Threshold : public Rule {
public:
    Threshold(const TraceHeader& header, const RuleSetting& setting) : header_(header), setting_(setting) {}
    std::vector<Tokens> select(const TraceSample& sample) override {
        const int64_t n = int64_t{sample.position} + 1, room = budget(setting_, sample);
        std::vector<std::vector<float>> worths = best_of_group(header_, sample);
        const float near = static_cast<float>(std::exp(-setting_.alpha));
        int64_t total = 0;
        for (const std::vector<float>& worth : worths) {
            const float least = near * *std::max_element(worth.begin(), worth.end());
            total += std::count_if(worth.begin(), worth.end(), [least](float weight) { return weight > least; });
        }
        const int64_t count = std::min(room, total / static_cast<int64_t>(worths.size()));
        const auto [sinks, recent] = forced(setting_, n, std::min<int64_t>(room, setting_.sinks + setting_.recent));
        std::vector<Tokens> chosen;
        for (std::vector<float>& worth : worths) {
            for (int64_t token = 0; token < n; ++token) {
                if (token < sinks || token >= n - recent) worth[static_cast<size_t>(token)] = 2;  // above every weight
            }
            chosen.push_back(greatest(worth, std::max(count, sinks + recent)));
        }
        return chosen;
    }

private:
    TraceHeader header_;
    RuleSetting setting_;
};

// Whole pages by their best token; the newest token's page always, as far as it goes.
class Pages : public Rule {
public:
    Pages(const TraceHeader& header, const RuleSetting& setting) : header_(header), setting_(setting) {}
    std::vector<Tokens> select(const TraceSample& sample) override {
        const int64_t n = int64_t{sample.position} + 1;
        const int64_t pages = (n + setting_.page - 1) / setting_.page;
        const int64_t count = std::max<int64_t>(1, budget(setting_, sample) / setting_.page);
        std::vector<Tokens> chosen;
        for (const std::vector<float>& worth : best_of_group(header_, sample)) {
            std::vector<float> page_worth(static_cast<size_t>(pages), 0);
            for (size_t token = 0; token < worth.size(); ++token) {
                float& best = page_worth[token / static_cast<size_t>(setting_.page)];
                best = std::max(best, worth[token]);
            }
            page_worth.back() = 2;
            Tokens tokens;
            for (int32_t page : greatest(page_worth, count)) {
                const int64_t begin = page * setting_.page;
                for (int64_t token = begin; token < std::min(n, begin + setting_.page); ++token) {
                    tokens.push_back(static_cast<int32_t>(token));
                }
            }
            chosen.push_back(std::move(tokens));
        }
        return chosen;
    }

private:
    TraceHeader header_;
    RuleSetting setting_;
};

// Heavy hitters: the newest half of the budget, and of the rest those with the greatest sums of weights so far. What was
// dropped stays dropped. Sums begin with the first sample, since prompts are not recorded.
class HeavyHitters : public Rule {
public:
    HeavyHitters(const TraceHeader& header, const RuleSetting& setting) : header_(header), setting_(setting) {}
    std::vector<Tokens> select(const TraceSample& sample) override {
        const int64_t n = int64_t{sample.position} + 1, count = budget(setting_, sample);
        const size_t group = header_.heads / header_.kv_heads;
        auto& layer = layers_[sample.layer];
        layer.resize(header_.kv_heads);
        std::vector<Tokens> chosen;
        for (size_t kv_head = 0; kv_head < layer.size(); ++kv_head) {
            std::vector<float>& sums = layer[kv_head];  // below 0: dropped
            sums.resize(static_cast<size_t>(n), 0);
            std::vector<float> worth(sums.size());
            for (size_t token = 0; token < sums.size(); ++token) {
                for (size_t head = kv_head * group; sums[token] >= 0 && head < (kv_head + 1) * group; ++head) {
                    sums[token] += sample.weights[head * sums.size() + token];
                }
                const bool recent = static_cast<int64_t>(token) >= n - std::max<int64_t>(1, count / 2);
                worth[token] = recent ? INFINITY : sums[token];
            }
            Tokens kept = greatest(worth, count);
            std::erase_if(kept, [&](int32_t token) { return worth[static_cast<size_t>(token)] < 0; });
            std::vector<float> after(sums.size(), -1);
            for (int32_t token : kept)
                after[static_cast<size_t>(token)] = std::max(0.0f, sums[static_cast<size_t>(token)]);
            sums = std::move(after);
            chosen.push_back(std::move(kept));
        }
        return chosen;
    }

private:
    TraceHeader header_;
    RuleSetting setting_;
    std::map<uint32_t, std::vector<std::vector<float>>> layers_;  // [kv_head][token]
};

// SnapKV's: the first `recent` looks at a layer vote, each token's votes smoothed over five places; then those with most
// votes stay and the others are gone for good, and whatever comes later stays. Until then all is read. The published rule
// lets the prompt's last queries vote, but prompts are not recorded.
class Snap : public Rule {
public:
    Snap(const TraceHeader& header, const RuleSetting& setting) : header_(header), setting_(setting) {}
    std::vector<Tokens> select(const TraceSample& sample) override {
        Layer& layer = layers_[sample.layer];
        layer.votes.resize(header_.kv_heads);
        if (layer.n_looks == setting_.recent) return with_newer(layer, sample);
        const size_t n = sample.position + size_t{1}, group = header_.heads / header_.kv_heads;
        for (size_t head = 0; head < header_.heads; ++head) {
            std::vector<float>& votes = layer.votes[head / group];
            votes.resize(n, 0);
            for (size_t token = 0; token < n; ++token) votes[token] += sample.weights[head * n + token];
        }
        if (++layer.n_looks == setting_.recent) {
            const int64_t newest = std::max<int64_t>(1, std::min(setting_.recent, budget(setting_, sample) / 2));
            for (std::vector<float>& votes : layer.votes) {
                std::vector<float> worth = smoothed(votes);
                std::fill(worth.end() - std::min<int64_t>(newest, static_cast<int64_t>(n)), worth.end(), INFINITY);
                layer.kept.push_back(greatest(worth, budget(setting_, sample)));
            }
            layer.n_seen = static_cast<int32_t>(n);
        }
        Tokens all(n);
        std::iota(all.begin(), all.end(), 0);
        return std::vector<Tokens>(header_.kv_heads, all);
    }

private:
    struct Layer {
        int64_t n_looks = 0;
        int32_t n_seen = 0;                     // tokens when it was decided
        std::vector<std::vector<float>> votes;  // [kv_head][token]
        std::vector<Tokens> kept;               // [kv_head]
    };

    static std::vector<float> smoothed(const std::vector<float>& votes) {
        constexpr int64_t half = 2;
        const auto n = static_cast<int64_t>(votes.size());
        std::vector<float> means(votes.size(), 0);
        for (int64_t token = 0; token < n; ++token) {
            for (int64_t at = std::max<int64_t>(0, token - half); at < std::min(n, token + half + 1); ++at) {
                means[static_cast<size_t>(token)] += votes[static_cast<size_t>(at)] / (2 * half + 1);
            }
        }
        return means;
    }
    static std::vector<Tokens> with_newer(const Layer& layer, const TraceSample& sample) {
        std::vector<Tokens> chosen = layer.kept;
        for (Tokens& tokens : chosen) {
            for (int32_t token = layer.n_seen; token <= static_cast<int32_t>(sample.position); ++token) {
                tokens.push_back(token);
            }
        }
        return chosen;
    }

    TraceHeader header_;
    RuleSetting setting_;
    std::map<uint32_t, Layer> layers_;
};

}  // namespace

const std::vector<std::string>& Rule::names() {
    static const std::vector<std::string> names = {"recorded",  "dense", "window",        "top",
                                                   "threshold", "pages", "heavy-hitters", "snap"};
    return names;
}

bool Rule::needs_scores(const std::string& name) {
    return has_budget(name) && name != "window";
}

bool Rule::has_budget(const std::string& name) {
    return name != "recorded" && name != "dense";
}

std::unique_ptr<Rule> Rule::make(const std::string& name, const TraceHeader& header, const RuleSetting& setting) {
    if (name == "recorded") return std::make_unique<Recorded>();
    if (name == "dense") return std::make_unique<Dense>();
    if (name == "window") return std::make_unique<Window>(setting);
    if (name == "top") return std::make_unique<Top>(header, setting);
    if (name == "threshold") return std::make_unique<Threshold>(header, setting);
    if (name == "snap") return std::make_unique<Snap>(header, setting);
    if (name == "pages") return std::make_unique<Pages>(header, setting);
    return std::make_unique<HeavyHitters>(header, setting);
}

}  // namespace kvplane::tool

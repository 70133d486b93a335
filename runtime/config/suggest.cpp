#include "config/suggest.h"

#include <algorithm>
#include <vector>

namespace kvplane {

namespace {

constexpr size_t longest_name = 256;  // the table is quadratic, and longer names are nobody's typing error

std::string_view last_part(std::string_view key) {
    const auto dot = key.rfind('.');
    return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

bool continues(std::string_view longer, std::string_view shorter) {
    return last_part(shorter).size() >= 3 && longer.starts_with(shorter);
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
    const size_t width = b.size() + 1;
    std::vector<size_t> table((a.size() + 1) * width);
    const auto cell = [&](size_t i, size_t j) -> size_t& { return table[i * width + j]; };
    for (size_t i = 0; i <= a.size(); ++i) cell(i, 0) = i;
    for (size_t j = 0; j <= b.size(); ++j) cell(0, j) = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replace = cell(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
            size_t best = std::min({cell(i - 1, j) + 1, cell(i, j - 1) + 1, replace});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = std::min(best, cell(i - 2, j - 2) + 1);
            }
            cell(i, j) = best;
        }
    }
    return cell(a.size(), b.size());
}

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
    if (name.empty() || name.size() > longest_name) return {};
    const size_t limit = last_part(name).size() < 4 ? 1 : 2;
    const std::string* best = nullptr;
    size_t best_distance = limit + 1;
    for (const auto& candidate : candidates) {
        if (candidate.size() > name.size() + limit || name.size() > candidate.size() + limit) continue;
        const size_t distance = edit_distance(name, candidate);
        if (distance < best_distance) {
            best = &candidate;
            best_distance = distance;
        }
    }
    if (best != nullptr) return *best;
    for (const auto& candidate : candidates) {
        if (!continues(candidate, name) && !continues(name, candidate)) continue;
        if (best == nullptr || candidate.size() < best->size()) best = &candidate;
    }
    return best == nullptr ? std::string() : *best;
}

std::string nearest_key(std::string_view key, std::span<const std::string> candidates) {
    std::string found = nearest(key, candidates);
    if (!found.empty()) return found;
    for (const auto& candidate : candidates) {
        if (last_part(candidate) == last_part(key)) return candidate;
    }
    return {};
}

}  // namespace kvplane

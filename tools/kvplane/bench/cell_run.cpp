#include "bench/cell_run.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/error.h"
#include "signals.h"

namespace kvplane::tool {

namespace {

constexpr int64_t warm_up_tokens = 2;  // of a decode cell

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

GenerationRequest random_request(const Engine& engine, int64_t prompt, int64_t new_tokens, uint32_t seed) {
    std::mt19937 generator(seed);
    GenerationRequest request;
    const uint32_t vocabulary = engine.shape().vocabulary;
    for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>(generator() % vocabulary));
    request.max_tokens = new_tokens;
    return request;
}

// One step before each run goes untimed: it wakes the threads and finds the weights where other cells left them.
class PrefillRun : public CellRun {
public:
    PrefillRun(const Session& session, const Cell& cell) : CellRun(session, cell) {}

    // A chunk or so warms up as well as the whole prompt.
    void prepare() override { read_prompt(std::min<int64_t>(cell_.tokens, 512)); }

    void run_once(const std::function<void()>& on_start) override {
        read_prompt(1);
        begins_.clear();
        engine_.on_prefill = [&](int64_t done, int64_t) { begins_.push_back(done); };
        on_start();
        const double seconds = read_prompt(cell_.tokens);
        engine_.on_prefill = {};
        if (caught_signal() == 0) rates_.push_back(static_cast<double>(cell_.tokens) / seconds);
    }

    // A chunk reads the layers' weights once and all rows up to its own end; logits are wanted for the last row alone.
    Traffic traffic() const override {
        const auto tokens = static_cast<double>(cell_.tokens);
        double rows_read = tokens;  // the last chunk ends there, every other where the next begins
        for (int64_t begin : begins_) rows_read += static_cast<double>(begin);
        Traffic traffic;
        traffic.weights =
            (static_cast<double>(begins_.size()) * weights_.layers + weights_.output) / tokens + weights_.embedding_row;
        traffic.kv = rows_read * static_cast<double>(engine_.kv_bytes_per_token()) / tokens;
        return traffic;
    }

private:
    double read_prompt(int64_t tokens) {
        const uint64_t id = engine_.submit(random_request(engine_, tokens, 1, 1));
        const auto start = std::chrono::steady_clock::now();
        while (caught_signal() == 0 && engine_.step()) {
        }
        const double seconds = seconds_since(start);
        engine_.forget(id);
        return seconds;
    }

    std::vector<int64_t> begins_;  // of the chunks of the last run
};

class DecodeRun : public CellRun {
public:
    DecodeRun(const Session& session, const Cell& cell, int64_t repeats) : CellRun(session, cell), repeats_(repeats) {}

    ~DecodeRun() override {
        for (uint64_t id : ids_) engine_.forget(id);
    }

    void prepare() override {
        for (int64_t i = 0; i < cell_.sequences && caught_signal() == 0; ++i) read_prompt(static_cast<uint32_t>(i + 1));
        decode(warm_up_tokens);
    }

    void run_once(const std::function<void()>& on_start) override {
        decode(1);
        on_start();
        const Statistics before = engine_.statistics();
        const auto start = std::chrono::steady_clock::now();
        decode(cell_.tokens);
        const double seconds = seconds_since(start);
        if (caught_signal() != 0) return;
        const Statistics& after = engine_.statistics();
        const auto made = static_cast<double>(after.decode_tokens - before.decode_tokens);
        if (made != static_cast<double>(tokens_of_a_run())) {
            throw Error(ErrorKind::runtime, "cell " + cell_.name + " made " + std::to_string(made) + " tokens");
        }
        rates_.push_back(made / seconds);
        rows_read_ += after.rows_read - before.rows_read;
        rows_past_ += after.rows_past - before.rows_past;
        attended_bytes_ += after.attended_bytes - before.attended_bytes;
        index_bytes_ += after.index_bytes - before.index_bytes;
    }

    // A step reads all weights once for a row of every sequence, and each sequence its own rows.
    Traffic traffic() const override {
        const auto sequences = static_cast<double>(cell_.sequences);
        Traffic traffic;
        traffic.weights = (weights_.layers + weights_.output) / sequences + weights_.embedding_row;
        traffic.kv = mean_depth() * static_cast<double>(engine_.kv_bytes_per_token());
        if (rows_read_ < rows_past_) {
            const auto tokens = static_cast<double>(rates_.size()) * static_cast<double>(tokens_of_a_run());
            traffic.kv = attended_bytes_ / tokens;
            traffic.index = index_bytes_ / tokens;
            traffic.kv_basis = "counted";
        }
        return traffic;
    }

private:
    // Cached rows before a token, mean over all runs.
    double mean_depth() const {
        const auto runs = static_cast<double>(rates_.size()), tokens = static_cast<double>(cell_.tokens);
        return static_cast<double>(cell_.context() + warm_up_tokens) + 1 + (tokens - 1) / 2 +
               (runs - 1) * (tokens + 1) / 2;
    }

    void read_prompt(uint32_t seed) {
        const int64_t prompt = cell_.context();
        const uint64_t before = engine_.statistics().prefill_tokens;
        const uint64_t id = engine_.submit(random_request(engine_, prompt, length(cell_, repeats_) - prompt, seed));
        ids_.push_back(id);
        while (engine_.statistics().prefill_tokens - before < static_cast<uint64_t>(prompt) && caught_signal() == 0) {
            if (!engine_.step()) {
                throw Error(ErrorKind::memory, "cell " + cell_.name +
                                                   ": its sequences do not fit the KV tiers at once, beside those of "
                                                   "other cells if --interleave is given");
            }
        }
        engine_.hold(id, true);
    }

    void decode(int64_t n_tokens) {
        for (uint64_t id : ids_) engine_.hold(id, false);
        for (int64_t i = 0; i < n_tokens && caught_signal() == 0; ++i) engine_.step();
        for (uint64_t id : ids_) engine_.hold(id, true);
    }

    int64_t repeats_;
    std::vector<uint64_t> ids_;
    double rows_read_ = 0;
    double rows_past_ = 0;
    double attended_bytes_ = 0;
    double index_bytes_ = 0;
};

}  // namespace

std::unique_ptr<CellRun> CellRun::make(const Session& session, const Cell& cell, int64_t repeats) {
    if (cell.prefill) return std::make_unique<PrefillRun>(session, cell);
    return std::make_unique<DecodeRun>(session, cell, repeats);
}

// The last token is made and never read, and a sequence that has ended could not be held.
int64_t CellRun::length(const Cell& cell, int64_t repeats) {
    return cell.prefill ? cell.tokens + 1 : cell.context() + 2 + warm_up_tokens + repeats * (cell.tokens + 1);
}

}  // namespace kvplane::tool

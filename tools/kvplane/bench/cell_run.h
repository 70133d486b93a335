// A cell on one engine: made ready once, then run as often as asked, whenever asked. Between the runs its sequences are
// held, so that several cells and engines can take turns without reading a prompt again.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "api/session.h"
#include "bench/cell.h"
#include "bench/traffic.h"

namespace kvplane::tool {

class CellRun {
public:
    static std::unique_ptr<CellRun> make(const Session& session, const Cell& cell, int64_t repeats);
    virtual ~CellRun() = default;

    // The longest sequence that the cell makes.
    static int64_t length(const Cell& cell, int64_t repeats);

    // Reads the prompts and warms up. Ends early after a signal, as run_once does.
    virtual void prepare() = 0;
    // Calls on_start when the clock starts.
    virtual void run_once(const std::function<void()>& on_start) = 0;
    // Of the runs so far.
    virtual Traffic traffic() const = 0;

    const Cell& cell() const { return cell_; }
    int64_t tokens_of_a_run() const { return cell_.tokens * cell_.sequences; }
    const std::vector<double>& rates() const { return rates_; }  // tokens a second of all sequences together

protected:
    CellRun(const Session& session, const Cell& cell)
        : cell_(cell), engine_(*session.engine), weights_(*session.model) {}

    Cell cell_;
    Engine& engine_;
    WeightBytes weights_;
    std::vector<double> rates_;
};

}  // namespace kvplane::tool

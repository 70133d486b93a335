// kvplane: results go to standard output, everything else to standard error.
#include <exception>
#include <iostream>

#include "base/error.h"
#include "command.h"
#include "kvplane/base.h"
#include "observe/terminal.h"
#include "signals.h"

namespace {

int run(int argc, char** argv) {
    using namespace kvplane;
    CLI::App app{"Runs large language models whose KV cache does not fit the fast memory.", "kvplane"};
    app.set_version_flag("-V,--version", "kvplane " KVPLANE_VERSION " (plugin ABI " + std::to_string(KVP_ABI_MAJOR) +
                                             "." + std::to_string(KVP_ABI_MINOR) + ", draft)");
    app.require_subcommand(1);
    app.footer("Exit codes: kvplane exit-codes. Every key of a pipeline: kvplane config explain.");
    tool::Action action;
    tool::add_run(app, action);
    tool::add_eval(app, action);
    tool::add_bench(app, action);
    tool::add_config(app, action);
    tool::add_plugin(app, action);
    tool::add_model(app, action);
    tool::add_calibrate(app, action);
    tool::add_exit_codes(app, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : static_cast<int>(ErrorKind::usage);
    }
    return action();
}

}  // namespace

int main(int argc, char** argv) {
    kvplane::tool::catch_signals();
    try {
        return run(argc, argv);
    } catch (const kvplane::Error& error) {
        kvplane::write_stderr("kvplane: " + kvplane::printable(error.what()) + "\n");
        return static_cast<int>(error.kind());
    } catch (const std::bad_alloc&) {
        kvplane::write_stderr("kvplane: out of memory\n");
        return static_cast<int>(kvplane::ErrorKind::memory);
    } catch (const std::exception& error) {
        kvplane::write_stderr(std::string("kvplane: internal error: ") + error.what() + "; please report it\n");
        return static_cast<int>(kvplane::ErrorKind::runtime);
    }
}

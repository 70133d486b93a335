// kvplane: results go to standard output, everything else to standard error.
#include <exception>
#include <iostream>

#include "base/error.h"
#include "command.h"
#include "config/suggest.h"
#include "kvplane/base.h"
#include "observe/terminal.h"
#include "signals.h"

namespace {

// CLI11 would say no more than that a command is missing.
void refuse_unknown_command(const CLI::App& app) {
    const CLI::App* chosen = &app;
    while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
    const std::vector<std::string> unknown = chosen->remaining();
    const std::vector<const CLI::App*> commands = chosen->get_subcommands([](const CLI::App*) { return true; });
    if (unknown.empty() || commands.empty()) return;
    std::vector<std::string> names;
    std::string list;
    for (const CLI::App* command : commands) {
        names.push_back(command->get_name());
        list += (list.empty() ? "" : ", ") + command->get_name();
    }
    const std::string near = kvplane::nearest(unknown.front(), names);
    throw kvplane::Error(kvplane::ErrorKind::usage, "no command \"" + unknown.front() + "\"" +
                                                        (near.empty() ? "" : "; did you mean \"" + near + "\"?") +
                                                        "; there are: " + list);
}

int wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
    app.exit(error);
    return static_cast<int>(kvplane::ErrorKind::usage);
}

// A result that did not get out is a failure, whatever the command thinks of it.
int end(int code) {
    if (std::cout.flush()) return code;
    throw kvplane::Error(kvplane::ErrorKind::runtime,
                         "cannot write to standard output; is it closed, or its disk full?");
}

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
    tool::add_trace(app, action);
    tool::add_bench(app, action);
    tool::add_config(app, action);
    tool::add_plugin(app, action);
    tool::add_model(app, action);
    tool::add_calibrate(app, action);
    tool::add_exit_codes(app, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::RequiredError& error) {
        refuse_unknown_command(app);
        return wrong_usage(app, error);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() != 0) return wrong_usage(app, error);
        app.exit(error);  // help or version, on standard output
        return end(0);
    }
    return end(action());
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

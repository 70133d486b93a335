// kvplane exit-codes
#include <iostream>

#include "command.h"

namespace kvplane::tool {

void add_exit_codes(CLI::App& app, Action& action) {
    CLI::App* command = app.add_subcommand("exit-codes", "What the program's exit codes mean");
    command->callback([&action] {
        action = [] {
            std::cout << "0    ok\n"
                         "1    failed while running\n"
                         "2    wrong command line or request\n"
                         "3    pipeline file, override or environment variable\n"
                         "4    model file\n"
                         "5    a plugin was refused or failed\n"
                         "6    does not fit the memory that it was given\n"
                         "7    bench compare: a cell is slower\n"
                         "130  interrupted (SIGINT)\n"
                         "143  ended (SIGTERM)\n";
            return 0;
        };
    });
}

}  // namespace kvplane::tool

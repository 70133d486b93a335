#include "signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace kvplane::tool {

namespace {

std::atomic<int> caught{0};

extern "C" void on_signal(int number) {
    if (caught.exchange(number) != 0) _exit(128 + number);
}

}  // namespace

void catch_signals() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    action.sa_handler = SIG_DFL;  // a closed pipe ends the program quietly
    sigaction(SIGPIPE, &action, nullptr);
}

int caught_signal() {
    return caught.load();
}

}  // namespace kvplane::tool

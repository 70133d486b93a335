// Runs a program as a user does: in a folder, with an environment, and sees what it says and how it ends.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvplane::test {

struct ProgramSettings {
    std::filesystem::path folder;          // where it runs
    std::vector<std::string> environment;  // "NAME=VALUE", added to this process's without its KVPLANE_ variables
    std::string output_file;               // where standard output goes instead of being kept
};

struct ProgramResult {
    int exit_code = -1;  // -1: ended by `signal`
    int signal = 0;
    std::string output, errors;
};

class Program {
public:
    explicit Program(const std::vector<std::string>& arguments, const ProgramSettings& settings = {}) {
        std::array<int, 2> output{}, errors{};
        if (pipe2(output.data(), O_CLOEXEC) != 0 || pipe2(errors.data(), O_CLOEXEC) != 0) fail("pipe2");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, output[1], 1);
        if (!settings.output_file.empty()) {
            posix_spawn_file_actions_addopen(&actions, 1, settings.output_file.c_str(), O_WRONLY, 0);
        }
        posix_spawn_file_actions_adddup2(&actions, errors[1], 2);
        if (!settings.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, settings.folder.c_str());

        std::vector<std::string> environment = settings.environment;
        for (char** entry = environ; *entry != nullptr; ++entry) {
            if (!std::string_view(*entry).starts_with("KVPLANE_")) environment.emplace_back(*entry);
        }
        const int error = posix_spawn(&process_, arguments.front().c_str(), &actions, nullptr,
                                      pointers(arguments).data(), pointers(environment).data());
        posix_spawn_file_actions_destroy(&actions);
        close(output[1]);
        close(errors[1]);
        output_ = output[0];
        errors_ = errors[0];
        if (error != 0) throw std::runtime_error("cannot start " + arguments.front());
    }

    ~Program() {
        close_output();
        close(errors_);
        if (process_ <= 0) return;
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    void send(int signal) const { kill(process_, signal); }

    // Reads until standard output has something.
    void wait_for_output() {
        while (result_.output.empty()) {
            if (!read_some()) throw std::runtime_error("it ended without output: " + result_.errors);
        }
    }

    void wait_for_errors(const std::string& part) {
        while (result_.errors.find(part) == std::string::npos) {
            if (!read_some()) throw std::runtime_error("it ended without \"" + part + "\": " + result_.errors);
        }
    }

    // The reading end goes away, as that of `kvplane run | head -1`.
    void close_output() {
        if (output_ >= 0) close(output_);
        output_ = -1;
    }

    ProgramResult wait() {
        while (read_some()) {
        }
        int status = 0;
        if (waitpid(process_, &status, 0) != process_) fail("waitpid");
        process_ = -1;
        if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
        if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
        return result_;
    }

private:
    [[noreturn]] static void fail(const char* call) { throw std::runtime_error(std::string(call) + " failed"); }

    static std::vector<char*> pointers(const std::vector<std::string>& texts) {
        std::vector<char*> found;
        for (const std::string& text : texts) found.push_back(const_cast<char*>(text.c_str()));
        found.push_back(nullptr);
        return found;
    }

    // False when both are at their end.
    bool read_some() {
        std::array<pollfd, 2> files = {{{output_, POLLIN, 0}, {errors_ended_ ? -1 : errors_, POLLIN, 0}}};
        if (files[0].fd < 0 && files[1].fd < 0) return false;
        const int ready = poll(files.data(), files.size(), 120'000);
        if (ready == 0) throw std::runtime_error("it hangs; so far it said: " + result_.errors);
        if (ready < 0) fail("poll");
        if (files[0].revents != 0 && !append(output_, result_.output)) close_output();
        if (files[1].revents != 0 && !append(errors_, result_.errors)) errors_ended_ = true;
        return true;
    }

    static bool append(int file, std::string& text) {
        std::array<char, 65536> buffer{};
        const ssize_t n = read(file, buffer.data(), buffer.size());
        if (n > 0) text.append(buffer.data(), static_cast<size_t>(n));
        return n > 0;
    }

    pid_t process_ = -1;
    int output_ = -1, errors_ = -1;
    bool errors_ended_ = false;
    ProgramResult result_;
};

inline ProgramResult run_program(const std::vector<std::string>& arguments, const ProgramSettings& settings = {}) {
    return Program(arguments, settings).wait();
}

}  // namespace kvplane::test

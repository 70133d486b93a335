// The one exception of the runtime. Whatever throws it says what happened, where, and what to do next; whatever
// catches it (the program, the C API) maps its kind to the documented exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace kvplane {

// The values are the program's exit codes (docs/users-guide.md).
enum class ErrorKind : int {
    runtime = 1,  // failed while running
    usage = 2,    // a wrong command line or request
    config = 3,   // the pipeline file, an override or an environment variable
    model = 4,    // the model file
    plugin = 5,   // a plugin was refused or failed
    memory = 6,   // does not fit the memory that it was given
};

class Error : public std::runtime_error {
public:
    Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
    ErrorKind kind() const noexcept { return kind_; }

private:
    ErrorKind kind_;
};

const char* to_string(ErrorKind kind) noexcept;

}  // namespace kvplane

// Checks that a call is refused for the reason expected, and says so.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace kvplane::test {

// `action` throws Error of this kind, and the message holds every one of `parts`.
template <class Action>
void expect_error(ErrorKind kind, const std::vector<std::string>& parts, Action action) {
    try {
        action();
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), kind) << error.what();
        for (const std::string& part : parts) {
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
                << "expected '" << part << "' in: " << error.what();
        }
        return;
    }
    ADD_FAILURE() << "nothing was refused; expected: " << (parts.empty() ? "an error" : parts.front());
}

}  // namespace kvplane::test

// What a figure depends on and does not say by itself: program, machine, model and settings. They stand beside every
// figure that leaves this program.
#pragma once

#include <nlohmann/json.hpp>

#include "api/session.h"

namespace kvplane::tool {

// One flat object; text and numbers alone.
nlohmann::ordered_json machine_facts();
nlohmann::ordered_json session_facts(const Session& session);

}  // namespace kvplane::tool

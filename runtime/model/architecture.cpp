#include "model/architecture.h"

#include <array>

#include "model/gguf_value.h"

namespace kvplane {

const Architecture& find_architecture(const GgufFile& file) {
    static const std::array known = {&llama_architecture};
    const std::string_view name = file.get_string("general.architecture");
    std::string names;
    for (const Architecture* architecture : known) {
        if (architecture->name == name) return *architecture;
        if (!names.empty()) names += ", ";
        names += architecture->name;
    }
    file.fail("the architecture '" + printable(name, 80) + "' is not supported; supported: " + names);
}

}  // namespace kvplane

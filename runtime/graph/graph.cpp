#include "graph/graph.h"

#include "base/error.h"

namespace kvplane {

const void* pointer_to(const Attributes& attributes) {
    return std::visit(
        [](const auto& value) -> const void* {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
                return nullptr;
            } else {
                return &value;
            }
        },
        attributes);
}

ValueId Graph::add_value(std::string name, int64_t width, Tensor::Element element) {
    values.push_back({std::move(name), width, element});
    return static_cast<ValueId>(values.size() - 1);
}

ConstantId Graph::add_constant(const TensorView& tensor) {
    constants.push_back(tensor);
    return static_cast<ConstantId>(constants.size() - 1);
}

ConstantId Graph::add_derived(std::string_view name, std::vector<float> data) {
    const std::vector<float>& kept = derived.emplace_back(std::move(data));
    TensorView view{};
    view.name = name;
    view.type = TensorType::f32;
    view.shape = {kept.size(), 1, 1, 1};
    view.dims = 1;
    view.data = reinterpret_cast<const std::byte*>(kept.data());
    view.bytes = kept.size() * sizeof(float);
    return add_constant(view);
}

Graph build_graph(const Model& model, const GraphOptions& options) {
    const std::string& architecture = model.shape().architecture;
    if (architecture == "llama") return build_llama_graph(model, options);
    throw Error(ErrorKind::model, "no graph for architecture \"" + architecture + "\"; known: llama");
}

}  // namespace kvplane

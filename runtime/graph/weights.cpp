#include "graph/weights.h"

#include <map>

namespace kvplane {

namespace {

Tensor view_at(const TensorView& view, kvp_address address) {
    const auto columns = static_cast<int64_t>(view.shape[0]);
    const auto rows = static_cast<int64_t>(view.elements() / view.shape[0]);
    auto plain = [&](Tensor::Element element) {
        return view.dims <= 1 ? Tensor::vector(element, columns, address)
                              : Tensor::matrix(element, rows, columns, address);
    };
    switch (view.type) {
        case TensorType::f32: return plain(Tensor::Element::f32);
        case TensorType::f16: return plain(Tensor::Element::f16);
        case TensorType::bf16: return plain(Tensor::Element::bf16);
        default: break;
    }
    return Tensor::blocks(std::string(tensor_type_info(view.type).format), rows,
                          static_cast<int64_t>(view.bytes) / rows, columns, address);
}

}  // namespace

Weights::Weights(Device& device, const Graph& graph) {
    std::map<const std::byte*, kvp_address> placed;  // the embedding may serve as output matrix too
    for (const TensorView& view : graph.constants) {
        kvp_address address = reinterpret_cast<kvp_address>(view.data);
        const auto [known, is_new] = placed.try_emplace(view.data, address);
        if (is_new && !device.reads_host_memory()) {
            Buffer copy(device, view.bytes, "weight " + std::string(view.name));
            device.upload(copy.address(), view.data, view.bytes);
            known->second = copy.address();
            copies_.push_back(std::move(copy));
        }
        tensors_.push_back(view_at(view, known->second));
    }
}

std::vector<const Tensor*> Weights::of(const Node& node) const {
    std::vector<const Tensor*> found;
    for (ConstantId id : node.constants) found.push_back(&tensors_[id]);
    return found;
}

}  // namespace kvplane

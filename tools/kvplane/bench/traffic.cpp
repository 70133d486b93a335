#include "bench/traffic.h"

namespace kvplane::tool {

WeightBytes::WeightBytes(const Model& model) {
    const TensorView& embedding = model.tensor("token_embd.weight");
    const TensorView* output = model.find_tensor("output.weight");
    for (const TensorView& tensor : model.tensors()) {
        if (tensor.name != embedding.name && tensor.name != "output.weight") {
            layers += static_cast<double>(tensor.bytes);
        }
    }
    this->output = static_cast<double>(output != nullptr ? output->bytes : embedding.bytes);
    embedding_row = static_cast<double>(embedding.bytes) / model.shape().vocabulary;
}

}  // namespace kvplane::tool

// The graph's constants where the device reads them: the mapped file itself if it reads host memory, copies otherwise.
#pragma once

#include <vector>

#include "device/device.h"
#include "graph/graph.h"

namespace kvplane {

class Weights {
public:
    Weights(Device& device, const Graph& graph);

    const Tensor& operator[](ConstantId id) const { return tensors_[id]; }
    std::vector<const Tensor*> of(const Node& node) const;

private:
    std::vector<Tensor> tensors_;
    std::vector<Buffer> copies_;
};

}  // namespace kvplane

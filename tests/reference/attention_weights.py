"""True attention weights of the last row, every layer and query head, by the F32 PyTorch program.

python attention_weights.py MODEL.gguf OUT_FOLDER NAME [--tokens 40]
Writes NAME.json with "ids" (made up from a formula) and shape, and NAME.f32: [layer][head][token].
"""
import argparse
import json
import math

import numpy as np
import torch

from llama_torch import Llama


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"), parser.add_argument("folder"), parser.add_argument("name")
    parser.add_argument("--tokens", type=int, default=40)
    args = parser.parse_args()
    model = Llama(args.model)
    ids = [(7919 + i * i * 31 + i * 17) % 270 for i in range(args.tokens)]
    weights = np.zeros((model.layers, model.heads, args.tokens), dtype=np.float32)

    def attention(layer, h, q, k, v, previous):
        for head in range(model.heads):
            score = k[:, head // model.group].double() @ q[-1, head].double() / math.sqrt(model.head_size)
            weights[layer, head] = score.softmax(-1).float().numpy()
        return model.attend(q, k, v, 0)

    with torch.no_grad():
        model.forward(ids, attention=attention)
    with open(f"{args.folder}/{args.name}.json", "w") as out:
        json.dump({"ids": ids, "layers": model.layers, "heads": model.heads}, out)
        out.write("\n")
    weights.tofile(f"{args.folder}/{args.name}.f32")


if __name__ == "__main__":
    main()

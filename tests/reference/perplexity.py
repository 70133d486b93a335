"""Perplexity of the dense model by the F32 PyTorch program: windows of a text, one after the other, each on its own.

python perplexity.py MODEL.gguf IDS.npy [--context 2048] [--windows 8] [--prompt 0]
IDS.npy comes from gguf_tokenizer.py. A row's loss is that of the token after it; rows before --prompt are left out.
Prints one JSON line a window and one for all.
"""
import argparse
import json
import math

import numpy as np
import torch

from llama_torch import Llama


def window_loss(model, ids, first):  # summed negative log-likelihood of ids[first + 1:], F64, and how many
    hidden, total = model.forward(ids), 0.0
    for a in range(first, len(ids) - 1, 512):
        b = min(len(ids) - 1, a + 512)
        log_probability = model.logits(hidden[a:b]).log_softmax(-1)
        total -= log_probability[torch.arange(b - a), ids[a + 1:b + 1]].double().sum().item()
    return total, len(ids) - 1 - first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"), parser.add_argument("ids")
    for name, value in (("context", 2048), ("windows", 8), ("prompt", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    torch.set_num_threads(1)
    ids, model = torch.from_numpy(np.load(args.ids)).long(), Llama(args.model)
    total = count = 0
    with torch.no_grad():
        for i in range(args.windows):
            loss, n = window_loss(model, ids[i * args.context:(i + 1) * args.context], args.prompt)
            total, count = total + loss, count + n
            figures = {"window": i, "tokens": n, "loss": loss / n, "perplexity": math.exp(loss / n)}
            print(json.dumps(figures), flush=True)
    print(json.dumps({"windows": args.windows, "context": args.context, "prompt": args.prompt, "tokens": count,
                      "loss": total / count, "perplexity": math.exp(total / count)}))


if __name__ == "__main__":
    main()

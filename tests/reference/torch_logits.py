"""Logits of a token sequence by the F32 PyTorch program.

python torch_logits.py MODEL.gguf IDS... [--rows R...] [--out FILE.f32]
IDS are token ids, or one JSON file with an array of them. Without --out the ten best ids of each row are printed as
JSON; with it the rows (default: the last one) are written as little-endian F32, row after row.
"""
import argparse
import json

import torch

from llama_torch import Llama


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"), parser.add_argument("ids", nargs="+")
    parser.add_argument("--rows", type=int, nargs="*", default=[-1])
    parser.add_argument("--out")
    args = parser.parse_args()
    ids = json.load(open(args.ids[0])) if args.ids[0].endswith(".json") else [int(i) for i in args.ids]
    torch.set_num_threads(1)
    model = Llama(args.model)
    with torch.no_grad():
        logits = model.logits(model.forward(ids)[args.rows])
    if args.out:
        logits.numpy().astype("<f4").tofile(args.out)
        return
    best = logits.topk(min(10, logits.shape[1]))
    for row, value, index in zip(args.rows, best.values, best.indices):
        print(json.dumps({"row": row, "ids": index.tolist(), "logits": [round(v, 5) for v in value.tolist()]}))


if __name__ == "__main__":
    main()

"""Greedy continuations by the F32 PyTorch program, for compare_greedy.py.

python greedy_tokens.py MODEL.gguf prompts.json OUT.json --ids IDS.npy [-n 64]
A prompt is {"name", "text"} or {"name", "slice": [first, count]} of the ids of WikiText-2's test split, which
gguf_tokenizer.py writes. OUT.json holds for each prompt: name, prompt_ids, tokens [n] (an end token does not stop
it), gaps [n] (best minus second best logit of each step) and top10 {ids, logits} of the first step.
"""
import argparse
import json
import time

import numpy as np
import torch

from gguf_tokenizer import load_tokenizer
from llama_torch import Llama


def continue_greedily(model, prompt, count):
    cache = model.new_cache(len(prompt) + count)
    logits = model.logits(model.forward(prompt, cache)[-1])
    best = logits.topk(10)
    top10 = {"ids": best.indices.tolist(), "logits": [round(v, 5) for v in best.values.tolist()]}
    tokens, gaps = [], []
    for step in range(count):
        first, second = logits.topk(2).values.tolist()
        tokens.append(int(logits.argmax()))
        gaps.append(round(first - second, 5))
        if step + 1 < count:
            logits = model.logits(model.forward(tokens[-1:], cache)[0])
    return tokens, gaps, top10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "prompts", "out"):
        parser.add_argument(name)
    parser.add_argument("--ids", required=True), parser.add_argument("-n", type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(1)
    text_ids, tokenizer, model = np.load(args.ids), load_tokenizer(args.model), Llama(args.model)
    results = []
    with torch.no_grad():
        for prompt in json.load(open(args.prompts)):
            if "slice" in prompt:
                first, count = prompt["slice"]
                ids = text_ids[first:first + count].tolist()
            else:
                ids = tokenizer.encode(prompt["text"]).ids
            start = time.time()
            tokens, gaps, top10 = continue_greedily(model, ids, args.n)
            results.append({"name": prompt["name"], "prompt_ids": ids, "tokens": tokens, "gaps": gaps, "top10": top10})
            print(f"{prompt['name']}: {len(ids)} tokens, smallest gap {min(gaps)}, {time.time() - start:.0f} s: "
                  f"{tokenizer.decode(tokens)!r}", flush=True)
    with open(args.out, "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()

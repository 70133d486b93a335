"""Logits of the tiny models under InfiniGen, for end-to-end tests: golden files NAME.json and NAME.f32.

python infinigen_logits.py TINY_DIR OUT_DIR     (in this tree: tests/golden/tiny, tests/golden/infinigen_logits)

Rows of the prompt attend densely, each later row to what a decode step at its position selects
(infinigen_selections.py), in F32 on the dequantised weights. The query that selects at layer l comes from layer l-1
(`source`), through layer l's W_Q and RoPE at the row's own position:
  attn_input    the normed input of layer l-1 (with l-1's norm weight: the paper)
  residual      the residual stream before layer l-1, normed with layer l's weight
  residual_mid  the residual stream after the attention of layer l-1, normed with layer l's weight
  own           layer l's own query
With look_ahead 2 it comes from layer l-2 instead, all else the same. Random scores are flat, hence alpha 1. Layers below
dense_layers and the first look_ahead layers attend densely. With centroids, each page of 64
tokens gives one virtual row: the mean of its K and of its V, with log(its rows not chosen) added to its score. No
skew (A = identity).

The prompt is two whole pages and at most 33 rows follow, so with recent = 32 every row of the unfinished third page
is attended as it is: no file depends on how the centroid of an unfinished page is kept. Token ids are redrawn until
no choice hangs on less than MARGIN (partial keys in F32: rounding to int8 cannot be kept clear over a whole model).
"""
import json
import os
import sys

import numpy as np
import torch

import infinigen_selections as selections
from llama_torch import Llama

MARGIN = 2e-4
PAGE, PROMPT, TOKENS = 64, 128, 161
ROWS = [128, 129, 144, 159, 160]
COMMON = dict(selections.DEFAULTS, alpha=1.0, source="attn_input", dense_layers=1, centroids=False)
PRESET = dict(COMMON, source="residual_mid", columns="energy", ratio=0.5, min_tokens=8, sinks=4, recent=32,
              centroids=True)
CASES = {
    "gqa-d64-paper": ("tiny-gqa-d64-f16", COMMON),
    "gqa-d64-preset": ("tiny-gqa-d64-f16", PRESET),
    "gqa-d64-own-query": ("tiny-gqa-d64-f16", dict(PRESET, source="own", dense_layers=0)),
    "gqa-d64-residual-no-centroids": ("tiny-gqa-d64-f16", dict(PRESET, source="residual", centroids=False)),
    "gqa-d16-preset": ("tiny-gqa-f32", PRESET),
    "gqa-d64-two-ahead": ("tiny-gqa-d64-f16", dict(PRESET, look_ahead=2)),
    "gqa-d16-two-ahead-residual": ("tiny-gqa-f32", dict(PRESET, source="residual", centroids=False, look_ahead=2)),
    "gqa-d64-two-ahead-paper": ("tiny-gqa-d64-f16", dict(COMMON, look_ahead=2)),
    "mha-d16-union": ("tiny-mha-f32", dict(COMMON, columns="union", ratio=0.2, sinks=4, recent=32)),
}


class InfiniGen:
    def __init__(self, model, options):
        self.model, self.o = model, options
        self.chosen = {}  # layer -> rows of select()
        self.before = []  # of each layer so far the inputs and residuals of the one before it

    def speculated_queries(self, layer, h):  # [TOKENS - PROMPT, heads, d]
        m, source = self.model, self.o["source"]
        previous = self.before[layer + 1 - self.o.get("look_ahead", 1)]
        if source == "own":
            x = h
        elif source == "attn_input":
            x = previous["attn_input"]
        else:
            x = m.normalise(previous[source], m.weight(layer, "attn_norm"))
        q = (x[PROMPT:] @ m.weight(layer, "attn_q").T).view(-1, m.heads, m.head_size)
        return m.rope(q, torch.arange(PROMPT, TOKENS))

    def attend_row(self, q, k, v, position, chosen):  # one row; q [group, d], k, v [TOKENS, d] of its KV head
        index = torch.cat([torch.as_tensor(chosen), torch.tensor([position])])
        scale = 1 / np.sqrt(self.model.head_size)
        score, value = q @ k[index].T * scale, v[index]
        if self.o["centroids"]:
            pages = PROMPT // PAGE  # the unfinished page has no row left
            left = PAGE - np.bincount(np.asarray(chosen) // PAGE, minlength=pages)[:pages]
            mean_k, mean_v = (t[:PROMPT].view(pages, PAGE, -1).mean(1) for t in (k, v))
            bias = torch.from_numpy(left).float().log()
            score = torch.cat([score, q @ mean_k.T * scale + bias], -1)
            value = torch.cat([value, mean_v])
        return score.softmax(-1) @ value

    def __call__(self, layer, h, q, k, v, previous):
        m = self.model
        self.before.append(previous)
        if layer < max(self.o["dense_layers"], self.o.get("look_ahead", 0)):
            return m.attend(q, k, v, 0)
        out = torch.empty(q.shape)
        out[:PROMPT] = m.attend(q[:PROMPT], k[:PROMPT], v[:PROMPT], 0)
        s = self.speculated_queries(layer, h)
        skew = np.stack([np.eye(m.head_size)] * m.kv_heads)
        inputs = (t.double().numpy() for t in (q[:PROMPT], s, k))
        _, _, rows = selections.select(*inputs, skew, self.o)
        self.chosen[layer] = rows
        for row in rows:
            for g in range(m.kv_heads):
                heads = slice(g * m.group, (g + 1) * m.group)
                at = row["position"]
                out[at, heads] = self.attend_row(q[at, heads], k[:, g], v[:, g], at, row["chosen"][g])
        return out


def golden(model, name, options):
    vocabulary = model.weights["token_embd.weight"].shape[0]
    for seed in range(1000):
        ids = np.random.default_rng([seed, *name.encode()]).integers(0, vocabulary, TOKENS).tolist()
        strategy = InfiniGen(model, options)
        try:
            logits = model.logits(model.forward(ids, attention=strategy))
        except selections.Unclear:
            continue
        return ids, logits, model.logits(model.forward(ids)), strategy.chosen
    raise SystemExit(f"{name}: no seed gives a clear outcome")


def main(tiny, out):
    os.makedirs(out, exist_ok=True)
    torch.set_num_threads(1)
    selections.MARGIN = MARGIN
    for name, (file, options) in CASES.items():
        model = Llama(os.path.join(tiny, file + ".gguf"))
        with torch.no_grad():
            ids, logits, dense, chosen = golden(model, name, options)
        logits[ROWS].numpy().astype("<f4").tofile(os.path.join(out, name + ".f32"))
        last = {str(layer): [c.tolist() for c in rows[-1]["chosen"]] for layer, rows in chosen.items()}
        counts = {str(layer): [r["counts"][0] for r in rows] for layer, rows in chosen.items()}
        read = float(np.mean([len(c) / r["position"] for rows in chosen.values() for r in rows for c in r["chosen"]]))
        with open(os.path.join(out, name + ".json"), "w") as file_:
            json.dump({"model": file + ".gguf", "options": options, "prompt": PROMPT, "ids": ids, "rows": ROWS,
                       "vocabulary": logits.shape[1], "logits": name + ".f32", "counts": counts,
                       "last_row_chosen": last, "share_read": round(read, 6)}, file_, separators=(",", ":"))
            file_.write("\n")
        moved = (logits - dense)[ROWS].abs().max()
        print(f"{name}: share read {read:.3f}, largest distance from dense logits {moved:.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])

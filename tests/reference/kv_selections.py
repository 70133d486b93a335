"""Writes ../golden/kv/*.json: which rows the strategies read or keep, on made-up queries and keys of one layer.

usage: kv_selections.py OUT_DIR

Written from the published definitions in NumPy (F64); it shares no code with kvplane.
  quest     pages of 16 by the sum over channels of max(q * greatest, q * least); the newest page always
  snapkv    sum over the last w queries of softmax over all keys, mean of a group's heads, pooled, the best cap - w rows and the last w
  pyramidkv the same, layer by layer with a budget that falls linearly
  h2o       sums of all probabilities since a row came; the heaviest and the newest stay, the others leave for good
Inputs are integers over 64. A case whose outcome hangs on less than MARGIN is drawn anew, so any careful F32 program gets the same
lists. `rows`, a list for each KV head, counts tokens from the first, own row left out.
"""
import json
import os
import sys

import numpy as np

SCALE = 64
MARGIN = 1e-4


class Unclear(Exception):
    """The outcome hangs on less than MARGIN."""


def best(scores, count):
    """The places of the `count` largest, ascending."""
    if count <= 0:
        return np.arange(0)
    order = np.argsort(-scores, kind="stable")
    if count < len(scores):
        low, high = scores[order[count - 1]], scores[order[count]]
        if low - high < MARGIN * max(1e-3, abs(low)):
            raise Unclear
    return np.sort(order[:count])


def draw(case, seed):
    """Keys around a few directions that queries look for, unequal over the channels: scores are peaked as in a model."""
    random = np.random.default_rng(seed)
    n, g, group, d = case["tokens"], case["kv_heads"], case["group"], case["d"]
    layers = case.get("layers", 1)
    spread = np.exp(0.5 * random.standard_normal(d))
    topics = random.standard_normal((layers, g, 6, d)) * spread
    pick = lambda *shape: random.integers(0, 6, shape)
    at = np.arange(layers)[:, None, None], np.arange(g)[None, None]
    k = topics[at[0], at[1], pick(layers, n, g)] + 0.7 * random.standard_normal((layers, n, g, d)) * spread
    k = k + random.standard_normal((layers, 1, g, d))
    q = topics[at[0][..., None], at[1][..., None], pick(layers, n, g, group)]
    q = (q + 0.7 * random.standard_normal(q.shape)) * 5 / np.sqrt(d)
    q = q.reshape(layers, n, g * group, d)
    return np.rint(q * SCALE).astype(int), np.rint(k * SCALE).astype(int)


# ---- quest ----

def quest(q, k, o, prompt):
    n, g, d = k.shape
    group = q.shape[1] // g
    page, steps = o["page_tokens"], []
    for position in range(prompt, n):
        newest = position // page
        count = max(o["min_pages"], o["tokens"] // page) - 1
        if count >= newest:
            steps.append(dict(position=position, rows=[list(range(position))] * g))
            continue
        rows = []
        for head in range(g):
            mine = q[position, head * group:(head + 1) * group]
            bounds = np.zeros((group, newest))
            for p in range(newest):
                keys = k[p * page:(p + 1) * page, head]
                bounds[:, p] = np.maximum(mine * keys.max(0), mine * keys.min(0)).sum(-1)
            if o["group"] == "best":
                bounds = bounds - bounds.max(-1, keepdims=True)
            score = bounds.mean(0) if o["group"] == "mean" else bounds.max(0)
            pages = best(score, count) if count > 0 else []
            rows.append([r for p in pages for r in range(p * page, (p + 1) * page)] + list(range(newest * page, position)))
        steps.append(dict(position=position, rows=rows))
    return steps


# ---- snapkv, pyramidkv ----

def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def pooled(votes, kernel, mode):
    half = kernel // 2
    if mode == "max":
        return np.array([votes[max(0, t - half):t + half + 1].max() for t in range(len(votes))])
    padded = np.pad(votes, half)
    return np.array([padded[t:t + kernel].sum() / kernel for t in range(len(votes))])


def snapkv_layer(q, k, chosen, newest, o):
    """q [P, heads, d], k [P, kv_heads, d] of a prompt: the rows that a layer keeps."""
    n, g, d = k.shape
    group = q.shape[1] // g
    if n <= chosen + newest:
        return [list(range(n))] * g
    w, rows = min(o["window"], n), []
    for head in range(g):
        votes = np.zeros(n)
        for i in range(n - w, n):
            for h in range(head * group, (head + 1) * group):
                votes[:i + 1] += softmax(q[i, h] @ k[:i + 1, head].T / np.sqrt(d)) / group
        score = pooled(votes[:n - newest], o["kernel"], o["pooling"])
        rows.append(list(best(score, chosen)) + list(range(n - newest, n)))
    return rows


def split(cap, window):
    newest = min(max(cap // 2, 1), window)
    return cap - newest, newest


def snapkv(q, k, o, prompt):
    return [dict(layer=layer, rows=snapkv_layer(q[layer, :prompt], k[layer, :prompt], *split(o["tokens"], o["window"]), o))
            for layer in range(len(q))]


def pyramid_budgets(mean, n, beta, layers):
    if n < 2 * mean:
        return [mean] * layers
    least = mean // beta
    most = 2 * mean - least
    if most >= n:
        most, least = n, 2 * mean - n
    step = (most - least) // (layers - 1)
    return [most - layer * step for layer in range(layers)]


def pyramidkv(q, k, o, prompt):
    mean, newest = split(o["tokens"], o["window"])
    budgets = pyramid_budgets(mean, prompt - newest, o["beta"], len(q))
    return [dict(layer=layer, rows=snapkv_layer(q[layer, :prompt], k[layer, :prompt], budgets[layer], newest, o))
            for layer in range(len(q))]


# ---- h2o ----

def h2o(q, k, o, prompt):
    n, g, d = k.shape
    group = q.shape[1] // g
    rows = [np.arange(0) for _ in range(g)]
    sums, seen = [np.zeros(0) for _ in range(g)], [np.zeros(0) for _ in range(g)]
    steps = []

    def quota(n_seen, after_prompt):
        if o["form"] == "flexgen":
            hh = max(1, o["tokens"] // 2)
            return (hh, hh - 1) if after_prompt else (hh - 1, hh)
        recent = min(max(int(np.floor(o["recent_share"] * o["tokens"])), 1), o["tokens"])
        return o["tokens"] - recent, recent

    for position in range(n):
        if position >= prompt:
            steps.append(dict(position=position, rows=[list(r) for r in rows]))
        for head in range(g):
            rows[head] = np.append(rows[head], position)
            sums[head], seen[head] = np.append(sums[head], 0.0), np.append(seen[head], 0)
            for h in range(head * group, (head + 1) * group):
                sums[head] += softmax(q[position, h] @ k[rows[head], head].T / np.sqrt(d))
            seen[head] += 1
        if position < prompt - 1:
            continue
        heavy, recent = quota(position + 1, position == prompt - 1)
        over = len(rows[0]) - heavy - recent
        if over < (1 if position == prompt - 1 else o["interval"]):
            continue
        for head in range(g):
            score = sums[head] / seen[head] if o["normalize"] == "count" else sums[head]
            border = len(rows[head]) - recent
            kept = np.append(best(score[:border], heavy), np.arange(border, len(rows[head]))).astype(int)
            rows[head], sums[head], seen[head] = rows[head][kept], sums[head][kept], seen[head][kept]
    return steps


CASES = {
    "snapkv-gqa2-d16": dict(kv_heads=2, group=2, d=16, tokens=150, prompt=150, tokens_kept=40, window=8),
    "snapkv-mha-max-d16": dict(kv_heads=2, group=1, d=16, tokens=129, prompt=129, tokens_kept=48, window=16, pooling="max", kernel=7),
    "snapkv-gqa3-small-d16": dict(kv_heads=1, group=3, d=16, tokens=64, prompt=64, tokens_kept=9, window=32),
    "snapkv-over-by-one-d16": dict(kv_heads=2, group=2, d=16, tokens=65, prompt=65, tokens_kept=64, window=8),
    "snapkv-exact-d16": dict(kv_heads=1, group=2, d=16, tokens=64, prompt=64, tokens_kept=64, window=8),
    "snapkv-short-d16": dict(kv_heads=1, group=2, d=16, tokens=1, prompt=1, tokens_kept=2, window=8),
    "pyramidkv-gqa2-d16": dict(kv_heads=1, group=2, d=16, tokens=128, prompt=128, layers=4, tokens_kept=32, window=8, beta=20),
    "pyramidkv-flat-d16": dict(kv_heads=1, group=1, d=16, tokens=65, prompt=65, layers=3, tokens_kept=60, window=8, beta=20),
    "pyramidkv-capped-d16": dict(kv_heads=1, group=2, d=16, tokens=46, prompt=46, layers=3, tokens_kept=27, window=8, beta=20),
    "h2o-gqa2-d16": dict(kv_heads=2, group=2, d=16, tokens=100, prompt=70, tokens_kept=24, interval=1),
    "h2o-by-sixteen-d16": dict(kv_heads=2, group=1, d=16, tokens=120, prompt=65, tokens_kept=30, interval=16, recent_share=0.3),
    "h2o-normalised-gqa3-d16": dict(kv_heads=1, group=3, d=16, tokens=90, prompt=64, tokens_kept=20, interval=4, normalize="count"),
    "h2o-flexgen-d16": dict(kv_heads=2, group=1, d=16, tokens=90, prompt=63, tokens_kept=20, interval=1, form="flexgen"),
    "h2o-budget-border-d16": dict(kv_heads=1, group=2, d=16, tokens=40, prompt=1, tokens_kept=33, interval=1),
    "quest-mha-d16": dict(kv_heads=2, group=1, d=16, tokens=210, prompt=190, page_tokens=16, tokens_kept=64),
    "quest-gqa3-d16": dict(kv_heads=2, group=3, d=16, tokens=150, prompt=125, page_tokens=16, tokens_kept=48),
    "quest-gqa2-max-d32": dict(kv_heads=1, group=2, d=32, tokens=140, prompt=120, page_tokens=8, tokens_kept=33, option="max"),
    "quest-gqa2-mean-d16": dict(kv_heads=2, group=2, d=16, tokens=140, prompt=127, page_tokens=32, tokens_kept=95, option="mean"),
    "quest-one-page-d16": dict(kv_heads=2, group=1, d=16, tokens=36, prompt=1, page_tokens=16, tokens_kept=16),
    "quest-budget-border-d16": dict(kv_heads=1, group=2, d=16, tokens=68, prompt=15, page_tokens=16, tokens_kept=48),
}


def quest_case(case):
    o = dict(page_tokens=case["page_tokens"], tokens=case["tokens_kept"], min_pages=1, group=case.get("option", "best"))
    return o, lambda q, k: quest(q[0] / SCALE, k[0] / SCALE, o, case["prompt"])


def snapkv_case(case):
    o = dict(tokens=case["tokens_kept"], window=case["window"], kernel=case.get("kernel", 5),
             pooling=case.get("pooling", "mean"))
    if "beta" in case:
        o["beta"] = case["beta"]
    return o, lambda q, k: (pyramidkv if "beta" in case else snapkv)(q / SCALE, k / SCALE, o, case["prompt"])


def h2o_case(case):
    o = dict(tokens=case["tokens_kept"], interval=case["interval"], recent_share=case.get("recent_share", 0.5),
             normalize=case.get("normalize", "none"), form=case.get("form", "drop"))
    return o, lambda q, k: h2o(q[0] / SCALE, k[0] / SCALE, o, case["prompt"])


KINDS = {"quest": quest_case, "snapkv": snapkv_case, "pyramidkv": snapkv_case, "h2o": h2o_case}


def golden(name):
    case = CASES[name]
    options, run = KINDS[name.split("-")[0]](case)
    for seed in range(3000):
        q, k = draw(case, [seed, *name.encode()])
        try:
            steps = run(q, k)
            break
        except Unclear:
            continue
    else:
        raise SystemExit(f"{name}: no seed gives a clear outcome")
    plain = lambda value: value.tolist() if isinstance(value, np.ndarray) else int(value)
    return {
        "about": "made by tests/reference/kv_selections.py, which says what each step computes",
        "tokens": case["tokens"], "prompt": case["prompt"], "kv_heads": case["kv_heads"], "group": case["group"],
        "d": case["d"], "layers": case.get("layers", 1), "options": options, "scale": SCALE, "q": q.ravel().tolist(),
        "k": k.ravel().tolist(),
        "steps": [{key: [list(map(int, row)) for row in value] if key == "rows" else plain(value)
                   for key, value in step.items()} for step in steps],
    }


def main(out):
    os.makedirs(out, exist_ok=True)
    for name in CASES:
        result = golden(name)
        with open(os.path.join(out, name + ".json"), "w") as file:
            json.dump(result, file, separators=(",", ":"))
            file.write("\n")
        print(name, [len(step["rows"][0]) for step in result["steps"]][:24])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])

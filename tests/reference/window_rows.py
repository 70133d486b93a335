"""What `window` keeps and reads, and StreamingLLM's attention: golden files for the unit tests. NumPy (F64) only.

python window_rows.py OUT_DIR          (in this tree: tests/golden/kv)

window.json: texts that come in steps [rows, is_prompt]. The first row of a step at position p sees the first `sinks` tokens and
the `budget - sinks` before it; the step's other rows see that and the step up to themselves. Before a step each page of the
cache goes that holds no token which its first row sees and none that is still to come. A prompt that is read in full
sees all that is in the cache, and nothing goes before it. `read`, `kept`: bounds of runs of tokens, begin, end, begin, end …;
the step's own rows left out. A budget that is a share of the text is floor(share * p), at least 1.

streaming-llm-*.json: the paper's way. The cache has keys as they were before RoPE, and at each step every key is turned to its place in
the cache, 0, 1, 2 … over all that is seen, and a query to the place of its own token. Inputs q, k are the same vectors turned to
their positions in the text, as a model's graph makes them, and v. `attended` is the attention of a step's last row. Attention knows
distances alone, so `sinks`, the keys of the sinks, are given nearer to the query's true position: each at that position less the
distance of the two places. RoPE turns the pairs of the first `dimensions` values and stretches them by `magnitude`.
"""
import json
import os
import sys
from fractions import Fraction

import numpy as np

PAGE = 16


def seen_of(o, position):
    """The runs of tokens before `position` that a row there sees."""
    budget = max(1, int(Fraction(str(o["share"])) * position)) if "share" in o else o["tokens"]
    border = max(o["sinks"], position - (budget - o["sinks"]))
    return [token for token in range(position) if token < o["sinks"] or token >= border]


def walk(o, steps):
    """Of each step its position, the tokens in the cache when it reads, and those that it reads."""
    cache, position = [], 0
    for n_rows, is_prompt in steps:
        seen = seen_of(o, position)
        if is_prompt and o["prompt"] == "full":
            seen = list(cache)
        else:
            needed = {token // PAGE for token in seen} | {position // PAGE}
            cache = [token for token in cache if token // PAGE in needed]
        yield position, list(cache), seen
        cache += range(position, position + n_rows)
        position += n_rows


def runs(tokens):
    bounds = []
    for token in tokens:
        if bounds and bounds[-1] == token:
            bounds[-1] = token + 1
        else:
            bounds += [token, token + 1]
    return bounds


def chunks(n_tokens, most):
    return [(min(most, n_tokens - begin), True) for begin in range(0, n_tokens, most)]


def texts():
    decode = [(1, False)]
    budget = 40
    for length in (1, PAGE - 1, PAGE, PAGE + 1, budget - 1, budget, budget + 1, 100):
        yield dict(tokens=budget, sinks=4, prompt="full"), chunks(length, 23) + decode * 50
        yield dict(tokens=budget, sinks=4, prompt="window"), chunks(length, 23) + decode * 20
    for sinks in (0, 1, PAGE - 1, PAGE, PAGE + 1, budget - 1):
        yield dict(tokens=budget, sinks=sinks, prompt="full"), chunks(50, 64) + decode * 40
        yield dict(tokens=budget, sinks=sinks, prompt="window"), chunks(120, 16) + decode * 20
    for tokens in (1, PAGE, PAGE + 1):
        yield dict(tokens=tokens, sinks=0, prompt="window"), chunks(70, 7) + decode * 20
    yield dict(share=0.3, sinks=2, prompt="full"), chunks(90, 32) + decode * 60
    # A conversation: the second prompt sees what the first left.
    again = chunks(60, 32) + decode * 30 + chunks(25, 10) + decode * 10 + chunks(40, 40) + decode * 5
    yield dict(tokens=budget, sinks=4, prompt="full"), again
    yield dict(tokens=budget, sinks=4, prompt="window"), again


def window():
    made = [{"options": options, "steps": [dict(rows=n, is_prompt=is_prompt, kept=runs(kept), read=runs(read)) for
                                           (n, is_prompt), (_, kept, read) in zip(steps, walk(options, steps))]}
            for options, steps in texts()]
    return {"about": "made by tests/reference/window_rows.py", "page_tokens": PAGE, "texts": made}


def turned(x, positions, case):
    """x [n, heads, d] at positions [n]."""
    pairs = case["dimensions"] // 2
    first, second = (np.arange(pairs), np.arange(pairs) + pairs) if case["style"] == "halves" else \
        (np.arange(0, 2 * pairs, 2), np.arange(1, 2 * pairs, 2))
    turn = np.exp(1j * np.asarray(positions)[:, None, None] * np.asarray(case["frequencies"])) * case["magnitude"]
    complex_pairs = (x[..., first] + 1j * x[..., second]) * turn
    out = x.copy()
    out[..., first], out[..., second] = complex_pairs.real, complex_pairs.imag
    return out


def streaming_step(q, k, v, seen, own, case):
    """Attention [rows, heads, d] of the tokens `own` after `seen`, and the keys of the sinks [kv_heads, sinks, d]."""
    group = q.shape[1] // k.shape[1]
    tokens = seen + own
    keys = turned(k[tokens], range(len(tokens)), case)
    out = np.zeros((len(own), *q.shape[1:]))
    for row, token in enumerate(own):
        place = len(seen) + row
        query = turned(q[[token]], [place], case)[0]
        for head in range(q.shape[1]):
            score = keys[:place + 1, head // group] @ query[head] / np.sqrt(q.shape[-1])
            weight = np.exp(score - score.max())
            out[row, head] = weight / weight.sum() @ v[tokens[:place + 1], head // group]
    n_sinks = sum(token < case["options"]["sinks"] for token in seen)
    nearer = own[0] - np.arange(len(seen), len(seen) - n_sinks, -1)
    return out, turned(k[:n_sinks], nearer, case).transpose(1, 0, 2)


def streaming(name, case):
    random = np.random.default_rng([*name.encode()])
    g, group, d = case["kv_heads"], case["group"], case["d"]
    pairs = case["dimensions"] // 2
    case["frequencies"] = [float(np.float32(100.0 ** (-i / pairs))) for i in range(pairs)]
    n = sum(rows for rows, _ in case["steps"])
    draw = lambda heads: 1.3 * random.standard_normal((n, heads, d))
    q, k, v = draw(g * group), draw(g), np.rint(64 * draw(g)).astype(int)
    steps = []
    for (rows, is_prompt), (position, kept, seen) in zip(case["steps"], walk(case["options"], case["steps"])):
        out, sinks = streaming_step(q, k, v / 64, seen, list(range(position, position + rows)), case)
        steps.append(dict(rows=rows, is_prompt=is_prompt, kept=runs(kept), read=runs(seen)))
        if is_prompt or position % 7 == 0:
            steps[-1] |= dict(attended=out[-1].round(7).tolist(), sinks=sinks.round(7).tolist())
    largest = np.linalg.norm(q, axis=-1).max() * np.linalg.norm(k, axis=-1).max() * case["magnitude"] ** 2 / np.sqrt(d)
    f32 = lambda x: [float(f"{value:.9g}") for value in turned(x, range(n), case).astype(np.float32).ravel()]
    return {"about": "made by tests/reference/window_rows.py", "page_tokens": PAGE, "tokens": n, **case,
            "q": f32(q), "k": f32(k), "v": v.ravel().tolist(), "scale": 64,
            "largest_score": float(largest.round(3)), "steps": steps}


STREAMING = {
    "streaming-llm-halves-d16": dict(
        kv_heads=2, group=2, d=16, style="halves", dimensions=16, magnitude=1.0,
        options=dict(tokens=33, sinks=4, prompt="full"), steps=chunks(33, 20) + [(1, False)] * 80),
    "streaming-llm-chunks-d16": dict(
        kv_heads=2, group=1, d=16, style="halves", dimensions=16, magnitude=1.0,
        options=dict(tokens=40, sinks=5, prompt="window"), steps=chunks(117, 13) + [(1, False)] * 30),
    "streaming-llm-part-of-a-head-d16": dict(
        kv_heads=1, group=3, d=16, style="interleaved", dimensions=8, magnitude=1.3,
        options=dict(tokens=32, sinks=17, prompt="window"), steps=chunks(65, 16) + [(1, False)] * 40),
}


def main(out):
    for name, result in [("window", window()), *((name, streaming(name, case)) for name, case in STREAMING.items())]:
        with open(os.path.join(out, name + ".json"), "w") as file:
            json.dump(result, file, separators=(",", ":"))
            file.write("\n")
        print(name, len(result.get("texts", result["steps"] if "steps" in result else [])))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])

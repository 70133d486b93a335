"""What the published evaluator of InfiniGen masks when a pool is full (shared facts: the artifact's accuracy path).

Every step of a text longer than the limit masks one row of each head: the least used ("counter") or the longest unused
("lru") of the older half of all rows, the first of equals; rows that are masked already stay among the candidates. The
selections are random, but never name a masked row, as its score is set to -10000.

    python3 tests/reference/published_pool.py    # writes tests/golden/infinigen/published-{lru,counter}.json
"""
import json
import pathlib

import numpy as np

HEADS, PROMPT, TOKENS, LIMIT = 3, 30, 150, 60


def simulate(policy, seed):
    random = np.random.default_rng(seed)
    count = np.zeros((HEADS, TOKENS), dtype=int)
    last = np.tile(np.arange(TOKENS), (HEADS, 1))  # the step in which a row came, then in which it was last read
    # Early rows are read most, so that the rows that grow old later have been read less than a row that is masked.
    weight = random.random((HEADS, TOKENS)) * np.exp(-np.arange(TOKENS) / 20)
    masked = [[] for _ in range(HEADS)]
    steps = []
    for i in range(PROMPT, TOKENS):
        selected = []
        for head in range(HEADS):
            allowed = [row for row in range(i) if row not in masked[head]]
            probability = weight[head][allowed] / weight[head][allowed].sum()
            rows = np.sort(random.choice(allowed, size=min(16, len(allowed) // 2), replace=False, p=probability))
            count[head][rows] += 1
            last[head][rows] = i
            selected.append([int(row) for row in rows])
        if i >= LIMIT:
            for head in range(HEADS):
                rank = (last if policy == "lru" else count)[head][: i // 2]
                victim = int(np.argmin(rank))
                if victim not in masked[head]:
                    masked[head].append(victim)
        steps.append({"selected": selected, "masked": [list(rows) for rows in masked]})
    return {"policy": policy, "heads": HEADS, "prompt": PROMPT, "limit": LIMIT, "steps": steps}


if __name__ == "__main__":
    directory = pathlib.Path(__file__).parent.parent / "golden" / "infinigen"
    for seed, policy in enumerate(["lru", "counter"]):
        made = simulate(policy, seed)
        (directory / f"published-{policy}.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")
        print(policy, "masked of", TOKENS - LIMIT, "evictions a head:", [len(rows) for rows in made["steps"][-1]["masked"]])

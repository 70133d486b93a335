"""Which rows leave a full pool of InfiniGen, on random traces of uses. Plain Python; it knows tokens, not places.

    python3 tests/reference/pool_evictions.py    # writes tests/golden/infinigen/pool-*.json

Of each KV head by itself: fifo takes the tokens that came first, lru those whose last use is longest ago (a token that was
never used since it came: the step in which it came; within a step, uses come after it), counter those with the smallest
count, ties to the one that came first. A step uses the rows that it selects and the sinks. A count goes up by one a use; as soon
as a step has brought one to 2^bits - 1, all of the head are halved, rounded down. A token that left takes its count with it.

A page at a time leaves, before a step would exceed the limit: the last complete page but one is laid over the victims, in
their order, and everything behind it moves down by a page. Candidates are the rows before that page, without the sinks if they are
protected. A rewind forgets the newest tokens; they come again under new names.

`events`: ["rows", n] come to the cache; ["use", rows of each head]; ["full", first row of the page, victims of each head];
["rewind", rows that stay]. `tokens` and `counts` are the cache of each head at the end, in its order.
"""
import json
import pathlib
import random

HEADS, PAGE, LIMIT, SINKS, RECENT, PROMPT = 3, 16, 96, 3, 9, (41, 30)
CASES = {
    "pool-fifo": dict(policy="fifo", bits=8, protect=True, steps=150),
    "pool-fifo-sinks-too": dict(policy="fifo", bits=8, protect=False, steps=150),
    "pool-lru": dict(policy="lru", bits=8, protect=True, steps=200),
    "pool-lru-sinks-too": dict(policy="lru", bits=8, protect=False, steps=150),
    "pool-counter-3-bits": dict(policy="counter", bits=3, protect=True, steps=200),
    "pool-counter-3-bits-sinks-too": dict(policy="counter", bits=3, protect=False, steps=150),
    "pool-counter-8-bits": dict(policy="counter", bits=8, protect=True, steps=560),
}


class Head:
    def __init__(self, case, rng):
        self.case, self.rng = case, rng
        self.cache = []  # tokens, in the cache's order
        self.count, self.last_use, self.appeal = {}, {}, {}

    def add(self, names, step):
        for token in names:
            self.cache.append(token)
            self.count[token], self.last_use[token] = 0, (step, 0)
            self.appeal[token] = self.rng.choice([1, 1, 3, 30])

    def select(self):
        """Rows that a step selects of those before its own, but for the sinks and the newest."""
        free = range(SINKS, len(self.cache) - 1 - RECENT)
        rows = self.rng.choices(free, [self.appeal[self.cache[row]] for row in free], k=6)
        return sorted(set(rows))

    def use(self, rows, step):
        for token in {self.cache[row] for row in [*range(SINKS), *rows]}:
            self.count[token] += 1
            self.last_use[token] = (step, 1)
        if max(self.count.values()) >= 2 ** self.case["bits"] - 1:
            self.count = {token: count // 2 for token, count in self.count.items()}

    def make_room(self, page):
        rank = {"fifo": lambda token: token, "lru": lambda token: (self.last_use[token], token),
                "counter": lambda token: (self.count[token], token)}[self.case["policy"]]
        candidates = self.cache[SINKS if self.case["protect"] else 0:page]
        leaving = set(sorted(candidates, key=rank)[:PAGE])
        victims = [row for row, token in enumerate(self.cache) if token in leaving]
        moved = iter(self.cache[page:page + PAGE])
        self.cache = [next(moved) if token in leaving else token for token in self.cache[:page]] + self.cache[page + PAGE:]
        for token in leaving:
            del self.count[token], self.last_use[token]
        return victims

    def forget(self, rows):
        for token in self.cache[rows:]:
            del self.count[token], self.last_use[token]
        self.cache = self.cache[:rows]


def simulate(name, case):
    rng = random.Random(name)
    heads = [Head(case, rng) for _ in range(HEADS)]
    events, next_token, size = [], 0, 0

    def add(n, step):
        nonlocal next_token, size
        for head in heads:
            head.add(range(next_token, next_token + n), step)
        next_token, size = next_token + n, size + n
        events.append(["rows", n])

    for step, n in enumerate(PROMPT):
        add(n, step - len(PROMPT))
    for step in range(case["steps"]):
        if size + 1 > LIMIT:
            page = (size // PAGE - 2) * PAGE
            events.append(["full", page, [head.make_room(page) for head in heads]])
            size -= PAGE
        add(1, step)
        selected = [head.select() for head in heads]
        for head, rows in zip(heads, selected):
            head.use(rows, step)
        events.append(["use", selected])
        # Never into the prompt, whose rows a rewind of the strategy may not touch.
        if step % 23 == 11 and size > sum(PROMPT) + 5:
            size -= rng.randint(1, 5)
            for head in heads:
                head.forget(size)
            events.append(["rewind", size])
    return {"about": "made by tests/reference/pool_evictions.py, which says the rules", "heads": HEADS, "page_tokens": PAGE,
            "limit": LIMIT, "sinks": SINKS, **case, "events": events, "tokens": [head.cache for head in heads],
            "counts": [[head.count[token] for token in head.cache] for head in heads]}


if __name__ == "__main__":
    directory = pathlib.Path(__file__).parent.parent / "golden" / "infinigen"
    for name, case in CASES.items():
        made = simulate(name, case)
        (directory / f"{name}.json").write_text(json.dumps(made, separators=(",", ":")) + "\n")
        full = [event for event in made["events"] if event[0] == "full"]
        print(name, len(full), "pages left, the last time rows", full[-1][2][0], "largest count", max(map(max, made["counts"])))

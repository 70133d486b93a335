"""llama.cpp and its relative ik_llama.cpp have the same C functions under slightly different names; measured alike.

A long context is filled once: on the way prompts of several lengths are timed, and at each depth some tokens are decoded
and taken back. Logits are asked for the last token of a prompt and for each decoded token; nothing is sampled."""

import time

import numpy as np

import driver

CHUNK = 512  # n_batch and n_ubatch


class Context:
    """A peer's context for some sequences. The bindings give `api`: new_context, decode, remove, clear."""

    def __init__(self, api, rows, sequences=1):
        self.api, self.sequences = api, sequences
        self.handle = api.new_context(rows, sequences)
        self.batch = api.batch_init(max(CHUNK, sequences), 0, 1)
        self.random = np.random.default_rng(0)
        self.filled = 0  # rows of each sequence

    def _run(self, tokens, first_position, step, logits):
        """step: 1 for tokens one after the other in sequence 0, 0 for a token of every sequence"""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i] = int(token)
            batch.pos[i] = first_position + i * step
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0 if step else i
            batch.logits[i] = 1 if logits and (i == len(tokens) - 1 or not step) else 0
        start = time.perf_counter()
        if self.api.decode(self.handle, batch) != 0:
            raise SystemExit("decode failed")
        if logits:
            self.api.logits(self.handle, len(tokens) - 1)  # waits for the result
        return time.perf_counter() - start

    def tokens(self, n):
        return self.random.integers(100, min(40000, self.api.vocabulary), n)

    def fill(self, depth):
        """Seconds to go on to `depth` rows."""
        seconds = 0.0
        while self.filled < depth:
            n = min(CHUNK, depth - self.filled)
            seconds += self._run(self.tokens(n), self.filled, 1, self.filled + n == depth)
            self.filled += n
        return seconds

    def decode_rate(self, n):
        """n tokens in every sequence, taken back afterwards."""
        seconds = sum(self._run(self.tokens(self.sequences), self.filled + i, 0, True) for i in range(n))
        for sequence in range(self.sequences):
            self.api.remove(self.handle, sequence, self.filled)
        return n * self.sequences / seconds

    def start_sequences(self):
        self._run(self.tokens(self.sequences), 0, 0, True)
        self.filled = 1

    def clear(self):
        self.api.clear(self.handle)
        self.filled = 0


def measure(api, given):
    single = [c for c in given.cells if c.sequences == 1]
    if single:
        rows = max(c.tokens if c.prefill else c.depth + c.tokens + 1 for c in single)
        measure_single(Context(api, rows, 1), single, given)
    for cell in given.cells:
        if cell.sequences > 1 and api.no_batches:
            driver.emit_failure(given, cell, api.no_batches)
        elif cell.sequences > 1:
            context = Context(api, cell.tokens + 2, cell.sequences)
            context.start_sequences()
            context.decode_rate(2)
            driver.emit(given, cell, [context.decode_rate(cell.tokens) for _ in range(given.repeats)])
            api.free_context(context.handle)


def measure_single(context, cells, given):
    context.fill(32)  # warm-up
    for cell in cells:
        if cell.prefill and cell.tokens <= driver.SHORT:
            rates = []
            for _ in range(given.repeats):
                context.clear()
                rates.append(cell.tokens / context.fill(cell.tokens))
            driver.emit(given, cell, rates)
    context.clear()
    long_cells = [c for c in cells if not (c.prefill and c.tokens <= driver.SHORT)]
    seconds = 0.0
    for cell in sorted(long_cells, key=lambda c: c.tokens if c.prefill else c.depth):
        seconds += context.fill(cell.tokens if cell.prefill else max(1, cell.depth))
        if cell.prefill:
            driver.emit(given, cell, [cell.tokens / seconds])
        else:
            context.decode_rate(2)
            driver.emit(given, cell, [context.decode_rate(cell.tokens) for _ in range(given.repeats)])
    context.api.free_context(context.handle)

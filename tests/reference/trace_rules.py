"""What rules would have read of a trace (tools/kvplane/trace/trace_file.h), by NumPy: `kvplane trace replay` is judged by it.

python trace_rules.py TRACE OUT.json [--shares 0.2,0.5] [--sinks 2] [--recent 4] [--page 4] [--alpha 2]
    [--resident 0.25]
"""
import argparse
import json
import struct

import numpy as np


def records(data):
    assert data[:8] == b"KVTRACE1"
    at = 8
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        yield kind, data[at + 8:at + 8 + size]
        at += 8 + size + 8


def varints(payload, at):
    while True:
        number = shift = 0
        while True:
            byte = payload[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield number, at


def read(path):
    header, samples = None, []
    for kind, payload in records(open(path, "rb").read()):
        if kind == 1:
            names = ("layers", "heads", "kv_heads", "page_tokens", "group_tokens", "row_bytes", "prompt_tokens")
            header = dict(zip(names, struct.unpack_from("<7I", payload, 8)), scores=payload[36])
        elif kind == 2:
            _, layer, position = struct.unpack_from("<QII", payload, 0)
            at, visible = 16, []
            for _ in range(header["kv_heads"]):
                n, at = next(varints(payload, at))
                tokens, token = [], 0
                for _ in range(n):
                    step, at = next(varints(payload, at))
                    token += step
                    tokens.append(token)
                    token += 1
                visible.append(tokens)
            raw = np.frombuffer(payload, "<u2", offset=at).astype(np.uint32) << 16
            samples.append((layer, position, visible, raw.view(np.float32).reshape(header["heads"], position + 1)))
    return header, samples


def top(worth, count):  # ties to the lower number
    return sorted(sorted(range(len(worth)), key=lambda i: (-worth[i], i))[:count])


class Rules:
    def __init__(self, header, args, share):
        self.header, self.args, self.share, self.sums = header, args, share, {}
        self.votes = {}
        self.group = header["heads"] // header["kv_heads"]

    def count(self, n):
        return min(max(int(np.floor(self.share * n + 0.5)), 1), n)

    def worth(self, weights, g):
        return weights[g * self.group:(g + 1) * self.group].max(0)

    def recorded(self, layer, visible, weights):
        return visible

    def window(self, layer, visible, weights):
        n, count = weights.shape[1], self.count(weights.shape[1])
        sinks = min(self.args.sinks, count - 1)
        return [list(range(sinks)) + list(range(n - (count - sinks), n))] * len(visible)

    def top(self, layer, visible, weights):
        n, count = weights.shape[1], self.count(weights.shape[1])
        recent = min(max(self.args.recent, 1), count)
        sinks = max(0, min(self.args.sinks, count - recent, n - recent))
        always = set(range(sinks)) | set(range(n - recent, n))
        return [top([np.inf if t in always else w for t, w in enumerate(self.worth(weights, g))], count)
                for g in range(len(visible))]

    def threshold(self, layer, visible, weights):
        n, room = weights.shape[1], self.count(weights.shape[1])
        worths = [self.worth(weights, g) for g in range(len(visible))]
        near = np.float32(np.exp(-self.args.alpha))
        count = min(room, sum(int((worth > near * worth.max()).sum()) for worth in worths) // len(worths))
        forced = min(room, self.args.sinks + self.args.recent)
        recent = min(max(self.args.recent, 1), forced)
        sinks = max(0, min(self.args.sinks, forced - recent, n - recent))
        always = set(range(sinks)) | set(range(n - recent, n))
        return [top([np.inf if t in always else w for t, w in enumerate(worth)], max(count, sinks + recent))
                for worth in worths]

    def snap(self, layer, visible, weights):
        n = weights.shape[1]
        looks, kept, seen = self.votes.setdefault(layer, ([], [], []))
        if len(looks) == self.args.recent:
            return [tokens + list(range(seen[0], n)) for tokens in kept]
        looks.append(weights)
        if len(looks) == self.args.recent:
            count = self.count(n)
            newest = max(1, min(self.args.recent, count // 2))
            for g in range(len(visible)):
                votes = np.zeros(n)
                for look in looks:
                    votes[:look.shape[1]] += look[g * self.group:(g + 1) * self.group].sum(0)
                worth = np.convolve(votes, np.full(5, 0.2), "same")
                worth[n - newest:] = np.inf
                kept.append(top(worth, count))
            seen.append(n)
        return [list(range(n))] * len(visible)

    def pages(self, layer, visible, weights):
        n, size = weights.shape[1], self.args.page
        n_pages, count = -(-n // size), max(1, self.count(n) // size)
        chosen = []
        for g in range(len(visible)):
            worth = self.worth(weights, g)
            best = [worth[p * size:(p + 1) * size].max() for p in range(n_pages)]
            best[-1] = np.inf
            chosen.append([t for p in top(best, count) for t in range(p * size, min(n, (p + 1) * size))])
        return chosen

    def heavy_hitters(self, layer, visible, weights):
        n, count = weights.shape[1], self.count(weights.shape[1])
        chosen = []
        for g in range(len(visible)):
            alive, sums = self.sums.get((layer, g), (set(), np.zeros(0, np.float32)))
            alive = alive | set(range(len(sums), n))
            sums = np.concatenate([sums, np.zeros(n - len(sums), np.float32)])
            for head in range(g * self.group, (g + 1) * self.group):
                sums = sums + weights[head]
            recent = set(range(n - max(1, count // 2), n))
            worth = [np.inf if t in recent else sums[t] if t in alive else -1 for t in range(n)]
            kept = [t for t in top(worth, count) if worth[t] >= 0]
            self.sums[(layer, g)] = (set(kept), sums)
            chosen.append(kept)
        return chosen


def replay(header, samples, name, args, share):
    rules, mass, rows, past, touched, hits, near = Rules(header, args, share), [], 0, 0, 0, 0, {}
    for now, (layer, position, visible, weights) in enumerate(samples):
        chosen = getattr(rules, name.replace("-", "_"))(layer, visible, weights)
        n = position + 1
        past += n * header["kv_heads"]
        capacity = int(args.resident * -(-n // header["group_tokens"]))
        for g, tokens in enumerate(chosen):
            rows += len(tokens)
            mass += [float(weights[h, tokens].sum()) for h in range(g * rules.group, (g + 1) * rules.group)]
            last = near.setdefault((layer, g), {})
            for at in sorted({t // header["group_tokens"] for t in tokens}):
                touched += 1
                hits += at in last
                last[at] = now
            while len(last) > capacity:
                del last[min(last, key=lambda at: (last[at], at))]
    return {"rule": name, "share": share, "share_read": rows / past, "kept_attention_mass": float(np.mean(mass)),
            "hit_rate": hits / touched}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace"), parser.add_argument("out")
    parser.add_argument("--shares", default="0.2,0.5"), parser.add_argument("--resident", type=float, default=0.25)
    for name, value in (("sinks", 2), ("recent", 4), ("page", 4)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--alpha", type=float, default=2)
    args = parser.parse_args()
    header, samples = read(args.trace)
    results = [replay(header, samples, "recorded", args, 1)]
    for name in ("window", "top", "threshold", "pages", "heavy-hitters", "snap"):
        results += [replay(header, samples, name, args, float(share)) for share in args.shares.split(",")]
    with open(args.out, "w") as out:
        json.dump(results, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()

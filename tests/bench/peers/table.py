"""Results of all rounds as Markdown, in the form of docs/measurements.md."""

from statistics import median


class Results:
    def __init__(self, cells):
        self.cells = cells
        self.by_round = {}  # contender name -> cell name -> one rate a round
        self.failed = {}  # contender name -> cell name -> why
        self.contenders = []

    def add(self, contender, outcome):
        """One round of one contender; of the runs in a round the median counts."""
        if contender not in self.contenders:
            self.contenders.append(contender)
        for cell, rates in outcome.rates.items():
            self.by_round.setdefault(contender.name, {}).setdefault(cell, []).append(median(rates))
        for cell, why in outcome.failed.items():
            self.failed.setdefault(contender.name, {})[cell] = why

    def rates(self, contender, cell):
        return self.by_round.get(contender.name, {}).get(cell.name, [])

    def best(self, group, cell):
        """Of a peer's settings the one with the best median in this cell, or None."""
        measured = [c for c in self.contenders if c.group == group and self.rates(c, cell)]
        return max(measured, key=lambda c: median(self.rates(c, cell)), default=None)


def text_of(rates):
    """Median, and least to most where there is more than one round."""
    if not rates:
        return ""
    form = (lambda x: f"{x:,.0f}") if median(rates) >= 100 else (lambda x: f"{x:.1f}")
    spread = f" ({form(min(rates))}-{form(max(rates))})" if len(rates) > 1 else ""
    return form(median(rates)) + spread


def row(texts):
    return "| " + " | ".join(texts) + " |"


def ratio(results, ours, peers, cell):
    """kvplane's rate over the best peer's, median of the rounds."""
    mine = results.rates(ours, cell)
    best = [results.best(group, cell) for group in peers]
    theirs = [results.rates(c, cell) for c in best if c is not None]
    rounds = min([len(mine), *(len(rates) for rates in theirs)])
    if not theirs or rounds == 0:
        return ""
    return f"**{median(mine[i] / max(rates[i] for rates in theirs) for i in range(rounds)):.2f}**"


def markdown(results, absent, facts):
    ours = [c for c in results.contenders if c.group == "kvplane"]
    peers = list(dict.fromkeys(c.group for c in results.contenders if c.group != "kvplane"))
    lines = [row(["", ""]), "|---|---|", *(row([key, str(value)]) for key, value in facts.items()), ""]
    lines.append("Tokens per second, median of the rounds (least to most). A peer stands with its best setting of the cell. Ratio: "
                 "to the best peer of the round, median of the rounds.")
    lines += ["", row(["cell", *(part for c in ours for part in (c.name, "ratio")), *(f"{p}, best" for p in peers)])]
    lines.append("|---" * (1 + 2 * len(ours) + len(peers)) + "|")
    for cell in results.cells:
        texts = [cell.title]
        for contender in ours:
            texts += [text_of(results.rates(contender, cell)), ratio(results, contender, peers, cell)]
        for group in peers:
            best = results.best(group, cell)
            texts.append(f"{text_of(results.rates(best, cell))} {best.setting}" if best else "")
        lines.append(row(texts))
    settings = [c for c in results.contenders if c.group != "kvplane"]
    if settings:
        lines += ["", "Every setting of the peers:", "", row(["cell", *(c.name for c in settings)])]
        lines.append("|---" * (1 + len(settings)) + "|")
        lines += [row([cell.title, *(text_of(results.rates(c, cell)) for c in settings)]) for cell in results.cells]
    notes = [f"{name}: absent, {why}" for name, why in absent.items()]
    for name, cells in results.failed.items():
        for why in dict.fromkeys(cells.values()):
            notes.append(f"{name}: no {', '.join(c for c in cells if cells[c] == why)}: {why}")
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    return "\n".join(lines)

"""Results of all rounds as Markdown, in the form of docs/measurements.md."""

from statistics import median


class Results:
    def __init__(self, cells):
        self.cells = cells
        self.contenders = []
        self.measured = {}  # contender name, cell name -> round -> tokens per second
        self.failed = {}  # contender name -> cell name -> why

    def add(self, number, contender, outcome):
        """Round `number` of one contender; of the runs in a round the median counts."""
        if contender not in self.contenders:
            self.contenders.append(contender)
        for cell, rates in outcome.rates.items():
            self.measured.setdefault((contender.name, cell), {})[number] = median(rates)
        for cell, why in outcome.failed.items():
            self.failed.setdefault(contender.name, {})[cell] = why

    def by_round(self, contender, cell):
        return self.measured.get((contender.name, cell.name), {})

    def rates(self, contender, cell):
        return list(self.by_round(contender, cell).values())

    def best(self, group, cell):
        """Of a peer's settings that have the most rounds the one with the best median in this cell, or None."""
        measured = [c for c in self.contenders if c.group == group and self.rates(c, cell)]
        rounds = max((len(self.rates(c, cell)) for c in measured), default=0)
        return max((c for c in measured if len(self.rates(c, cell)) == rounds),
                   key=lambda c: median(self.rates(c, cell)), default=None)

    def worth_more_rounds(self, contenders):
        """kvplane, and of each peer the settings that came within 10 % of its best in some cell."""
        def near_best(contender):
            for cell in self.cells:
                rates = self.rates(contender, cell)
                if rates and median(rates) >= 0.9 * median(self.rates(self.best(contender.group, cell), cell)):
                    return True
            return False
        return [c for c in contenders if c.group == "kvplane" or near_best(c)]

    def ratio(self, ours, peers, cell):
        """kvplane's rate over that of the best peer, median of the rounds that have both; None if there is none."""
        mine = self.by_round(ours, cell)
        theirs = [self.by_round(best, cell) for best in (self.best(group, cell) for group in peers) if best is not None]
        ratios = []
        for number, rate in mine.items():
            best = max((rates[number] for rates in theirs if number in rates), default=None)
            if best is not None:
                ratios.append(rate / best)
        return median(ratios) if ratios else None


def text_of(rates):
    """Median, and least to most where there is more than one round."""
    if not rates:
        return ""
    form = (lambda x: f"{x:,.0f}") if median(rates) >= 100 else (lambda x: f"{x:.1f}")
    spread = f" ({form(min(rates))}-{form(max(rates))})" if len(rates) > 1 else ""
    return form(median(rates)) + spread


def row(texts):
    return "| " + " | ".join(texts) + " |"


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
            ratio = results.ratio(contender, peers, cell)
            texts += [text_of(results.rates(contender, cell)), "" if ratio is None else f"**{ratio:.2f}**"]
        for group in peers:
            best = results.best(group, cell)
            texts.append(f"{text_of(results.rates(best, cell))} {best.setting}" if best else "")
        lines.append(row(texts))
    settings = [c for c in results.contenders if c.group != "kvplane"]
    if settings:
        lines += ["", "Every setting of the peers; one figure alone: it was not near the best in the first round and left out of the others:", "", row(["cell", *(c.name for c in settings)])]
        lines.append("|---" * (1 + len(settings)) + "|")
        lines += [row([cell.title, *(text_of(results.rates(c, cell)) for c in settings)]) for cell in results.cells]
    notes = [f"{name}: absent, {why}" for name, why in absent.items()]
    for name, cells in results.failed.items():
        for why in dict.fromkeys(cells.values()):
            notes.append(f"{name}: no {', '.join(c for c in cells if cells[c] == why)}: {why}")
    if notes:
        lines += ["", *(f"- {note}" for note in notes)]
    return "\n".join(lines)

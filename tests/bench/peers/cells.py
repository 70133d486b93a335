"""What is measured, in the names of `kvplane bench`: ppN, tgN@DEPTHxSEQUENCES (aggregate tokens per second)."""

import re
from dataclasses import dataclass

SHORT = 1024  # tokens: prompts up to here are read several times in a round, longer ones once
DEFAULT = "pp512,pp2048,pp7680,tg32,tg32@2048,tg32@4096,tg32@7680,tg32x4,tg32x16"


@dataclass(frozen=True)
class Cell:
    name: str
    prefill: bool
    tokens: int
    depth: int = 0
    sequences: int = 1

    @property
    def title(self):
        if self.prefill:
            return f"prefill {self.tokens:,}"
        several = f", {self.sequences} sequences" if self.sequences > 1 else ""
        return f"decode at {self.depth:,}{several}"


def parse(text):
    cells = []
    for name in text.split(","):
        prefill = re.fullmatch(r"pp([1-9]\d*)", name)
        decode = re.fullmatch(r"tg([1-9]\d*)(?:@(\d+))?(?:x([1-9]\d*))?", name)
        if prefill:
            cells.append(Cell(name, True, int(prefill[1])))
        elif decode:
            cells.append(Cell(name, False, int(decode[1]), int(decode[2] or 0), int(decode[3] or 1)))
        else:
            raise SystemExit(f'"{name}" is neither ppN nor tgN@DEPTHxSEQUENCES')
        if cells[-1].depth and cells[-1].sequences > 1:
            raise SystemExit(f'"{name}": several sequences are measured at depth 0 alone')
    return cells

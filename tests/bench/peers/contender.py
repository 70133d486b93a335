"""Who is measured: kvplane with a pipeline, or a peer with a setting. Each runs as a process of its own that ends with its
round, so that nobody spins or holds memory while others are measured."""

import json
import os
import subprocess
from dataclasses import dataclass, field

from cells import SHORT

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))

# name, program, settings
PEERS = {
    "llama.cpp": ("llama_cpp_peer.py", ["fa-off", "fa-on", "fa-on-q8_0"]),
    "ik_llama.cpp": ("ik_llama_peer.py", ["fa-off", "fa-on", "fa-on-q8_0", "fa-on-repacked"]),
    "openvino": ("openvino_peer.py", ["kv-f16", "kv-u8"]),
}

# Of kvplane's results, what the table says of the machine.
FACTS = ("version", "commit", "cpu", "kernel", "instruction_level", "tensor_types")

# name -> pipeline file in configs/ and what is set beside
PIPELINES = {
    "dense": ("dense.toml", []),
    "dense-i8": ("dense.toml", ["kv.codec=i8"]),
    "infinigen": ("infinigen.toml", []),
}


@dataclass
class Outcome:
    rates: dict = field(default_factory=dict)  # cell name -> tokens per second of each run
    failed: dict = field(default_factory=dict)  # cell name -> why
    facts: dict = field(default_factory=dict)


@dataclass
class Contender:
    group: str  # "kvplane" or the peer
    setting: str  # pipeline or the peer's setting

    @property
    def name(self):
        return f"{self.group} {self.setting}"


class Kvplane(Contender):
    def __init__(self, name, program, pipeline, overrides):
        super().__init__("kvplane", name)
        self.program = program
        self.arguments = ["-p", pipeline] + [part for each in overrides for part in ("--set", each)]

    def missing(self):
        """Why it cannot run, empty if it can."""
        if not os.access(self.program, os.X_OK):
            return f"no program {self.program}; build the release preset"
        check = subprocess.run([self.program, "config", "check", *self.arguments], capture_output=True, text=True)
        return "" if check.returncode == 0 else (check.stderr.strip() or "no message").splitlines()[0]

    def measure(self, options, cells):
        outcome = Outcome()
        long_prompts = [c for c in cells if c.prefill and c.tokens > SHORT]
        for some, repeats in (([c for c in cells if c not in long_prompts], options.repeats), (long_prompts, 1)):
            if some:
                self.bench(options, some, repeats, outcome)
        return outcome

    def bench(self, options, cells, repeats, outcome):
        command = [self.program, "bench", *self.arguments, "-m", options.model, "-t", str(options.threads), "-o", "jsonl",
                   "-r", str(repeats), "--cells", ",".join(c.name for c in cells)]
        output, failure = run(options, command)
        for line in output.splitlines():
            row = json.loads(line)
            outcome.rates[row["cell"]] = [row["median"]]
            outcome.facts.setdefault("read_limits", []).append(row["read_limit_bytes_per_second"])
            outcome.facts |= {key: row[key] for key in FACTS}
        for cell in cells:
            if cell.name not in outcome.rates:
                outcome.failed[cell.name] = failure or "no result"


class Peer(Contender):
    def __init__(self, group, setting, python):
        super().__init__(group, setting)
        self.python = python
        self.program = os.path.join(HERE, "contenders", PEERS[group][0])

    def missing(self):
        if not self.python:
            return "no interpreter given"
        module = {"llama.cpp": "llama_cpp", "ik_llama.cpp": "ik_llama_cpp", "openvino": "openvino_genai"}[self.group]
        try:
            check = subprocess.run([self.python, "-c", f"import {module}, numpy"], capture_output=True, text=True)
        except OSError as error:
            return f"{self.python}: {error.strerror}"
        return "" if check.returncode == 0 else last_line(check.stderr)

    def measure(self, options, cells):
        command = [self.python, self.program, "--model", options.model, "--threads", str(options.threads), "--setting",
                   self.setting, "--repeats", str(options.repeats), "--cells", ",".join(c.name for c in cells)]
        output, failure = run(options, command)
        outcome = Outcome()
        for line in output.splitlines():
            row = json.loads(line)
            if "version" in row:
                outcome.facts["version"] = row["version"]
            elif "failed" in row:
                outcome.failed[row["cell"]] = row["failed"]
            else:
                outcome.rates[row["cell"]] = row["rates"]
        for cell in cells:
            if cell.name not in outcome.rates:
                outcome.failed.setdefault(cell.name, failure or "no result")
        return outcome


def run(options, command):
    """Standard output so far, and why it ended badly (or an empty text)."""
    try:
        done = subprocess.run([*options.launcher, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", timeout=options.timeout)
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace"), f"not done after {options.timeout} s"
    return done.stdout, "" if done.returncode == 0 else f"exit code {done.returncode}: {last_line(done.stderr)}"


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"

#!/usr/bin/env python3
"""kvplane and its peers on one model file and thread count, in rounds: README.md tells how to set it up.

    tests/bench/peers/run.py --model MODEL.gguf --peers peers.toml > table.md
"""

import argparse
import json
import os
import shlex
import sys
import time
import tomllib
from statistics import median

import cells as cell_names
from busy import busy
from contender import PEERS, PIPELINES, ROOT, Kvplane, Peer
from table import Results, markdown


def arguments():
    parser = argparse.ArgumentParser(description="kvplane and its peers, in rounds; Markdown on standard output")
    parser.add_argument("--model", required=True, help="model file (GGUF)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cells", type=cell_names.parse, default=cell_names.parse(cell_names.DEFAULT),
                        help=f"default {cell_names.DEFAULT}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2, help="runs of a cell in a round; long prompts are read once")
    parser.add_argument("--every-setting", action="store_true",
                        help="measure every setting of the peers in every round, not only in the first")
    parser.add_argument("--peers", help="file that names the peers' interpreters, see README.md")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=INTERPRETER",
                        help="the same for one peer: " + ", ".join(PEERS))
    parser.add_argument("--only", default="", help="contenders to measure, with commas: parts of names such as "
                                                   "\"kvplane dense\" or \"llama.cpp fa-on\"; default all")
    parser.add_argument("--pipeline", action="append", default=[], metavar="NAME=FILE[,KEY=VALUE...]",
                        help="a pipeline of kvplane beside " + ", ".join(PIPELINES))
    parser.add_argument("--kvplane", default=os.path.join(ROOT, "build/release/bin/kvplane"), help="program")
    parser.add_argument("--busy", action="store_true", help="a busy process on the last CPU meanwhile")
    parser.add_argument("--launcher", type=shlex.split, default=[], help="goes in front of every measuring command")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one contender's round")
    parser.add_argument("--raw", default="peers.jsonl", help="file that gets every result as a JSON line")
    options = parser.parse_args()
    if options.threads < 1 or options.rounds < 1 or options.repeats < 1:
        parser.error("--threads, --rounds and --repeats must be above zero")
    if not os.path.isfile(options.model):
        parser.error(f"no file {options.model}")
    return options


def interpreters(options):
    found = {}
    if options.peers:
        try:
            with open(options.peers, "rb") as file:
                found = {name: table["python"] for name, table in tomllib.load(file).items()}
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
            raise SystemExit(f"{options.peers}: {error}")
    for given in options.python:
        name, _, python = given.partition("=")
        found[name] = python
    for name in found:
        if name not in PEERS:
            raise SystemExit(f'no peer "{name}"; there are: {", ".join(PEERS)}')
    return found


def contenders(options):
    """Those that can run, and why others cannot."""
    pipelines = {name: (os.path.join(ROOT, "configs", file), sets) for name, (file, sets) in PIPELINES.items()}
    for given in options.pipeline:
        name, _, rest = given.partition("=")
        file, *sets = rest.split(",")
        pipelines[name] = (file, sets)
    pythons = interpreters(options)
    every = [Kvplane(name, options.kvplane, file, sets) for name, (file, sets) in pipelines.items()]
    every += [Peer(peer, setting, pythons.get(peer)) for peer, (_, settings) in PEERS.items() for setting in settings]
    wanted = [part.strip() for part in options.only.split(",") if part.strip()]
    every = [c for c in every if not wanted or any(c.name.startswith(part) for part in wanted)]
    present, absent = [], {}
    for contender in every:
        why = contender.missing()
        if not why:
            present.append(contender)
        else:
            absent[contender.name if contender.group == "kvplane" else contender.group] = why
    if not present:
        raise SystemExit("nobody to measure: " + "; ".join(f"{name}: {why}" for name, why in absent.items()))
    return present, absent


def main():
    options = arguments()
    present, absent = contenders(options)
    for name, why in absent.items():
        print(f"{name}: absent, {why}", file=sys.stderr)
    results, versions, facts, read_limits = Results(options.cells), {}, {}, []
    start = time.monotonic()
    with open(options.raw, "w") as raw, busy(options.busy):
        going = present
        for number in range(options.rounds):
            if number == 1 and not options.every_setting:
                going = results.worth_more_rounds(present)
            first = number % len(going) if going else 0  # nobody is always the first after a pause
            for contender in going[first:] + going[:first]:
                begin = time.monotonic()
                outcome = contender.measure(options, options.cells)
                took = time.monotonic() - begin
                results.add(number, contender, outcome)
                for cell in options.cells:
                    line = {"round": number, "contender": contender.name, "threads": options.threads, "cell": cell.name,
                            "busy": options.busy}
                    if cell.name in outcome.rates:
                        line["rates"] = outcome.rates[cell.name]
                    else:
                        line["failed"] = outcome.failed.get(cell.name, "")
                    print(json.dumps(line), file=raw, flush=True)
                read_limits += outcome.facts.pop("read_limits", [])
                if contender.group == "kvplane":
                    facts = outcome.facts or facts
                else:
                    versions[contender.group] = outcome.facts.get("version", versions.get(contender.group, ""))
                print(f"round {number + 1}: {contender.name}, {took:.0f} s", file=sys.stderr, flush=True)
    results.contenders.sort(key=present.index)
    about = {"model": f"{os.path.basename(options.model)}, {os.path.getsize(options.model):,} bytes",
             "threads": options.threads, "rounds": options.rounds,
             "busy process": "on the last CPU" if options.busy else "none"}
    if facts:
        about = {"kvplane": f"{facts['version']}, commit {facts['commit']}",
                 "processor": f"{facts['cpu']}, level {facts['instruction_level']}", "kernel": facts["kernel"],
                 "tensor types": facts["tensor_types"], "read limit": f"{median(read_limits) / 1e9:.1f} GB/s", **about}
    about |= {name: version for name, version in versions.items() if version}
    print(markdown(results, absent, about))
    print(f"{time.monotonic() - start:.0f} s in all; every result: {options.raw}", file=sys.stderr)


if __name__ == "__main__":
    main()

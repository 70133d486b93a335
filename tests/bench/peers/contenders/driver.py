"""What every peer's program has in common: its arguments, and results as JSON lines on standard output.

A peer's program runs in the peer's own interpreter, measures the cells once for a round, and ends."""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import cells as cell_names

SHORT = cell_names.SHORT


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--setting", required=True)
    parser.add_argument("--cells", type=cell_names.parse, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    given = parser.parse_args()
    given.out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no result
    return given


def emit(given, cell, rates):
    """rates: tokens per second of each run of this round"""
    print(json.dumps({"cell": cell.name, "rates": rates}), file=given.out, flush=True)


def emit_failure(given, cell, reason):
    print(json.dumps({"cell": cell.name, "failed": reason}), file=given.out, flush=True)


def emit_version(given, version):
    print(json.dumps({"version": version}), file=given.out, flush=True)


def repeats_of(given, tokens):
    return given.repeats if tokens <= SHORT else 1

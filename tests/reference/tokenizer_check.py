#!/usr/bin/env python3
"""Compares kvplane's token ids with those of the `tokenizers` package on a whole file.

Usage: tokenizer_check.py MODEL TEXT PROGRAM
  MODEL    a GGUF file with a smollm, gpt-2 or llama-bpe tokenizer
  TEXT     a UTF-8 file
  PROGRAM  `tokenize_file` (prints one id a line), or `kvplane` (then `kvplane model tokenize MODEL --file TEXT --json`)

The reference is built from the file's own vocabulary and merges. Exit code 1 on a difference.
Packages: tokenizers, gguf.
"""
import json
import os
import subprocess
import sys
import time

from gguf import GGUFReader
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


PRE_TOKENIZERS = {
    "gpt-2": lambda: byte_level(True),
    # transformers' own reading of a smollm GGUF leaves the digits step out.
    "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]),
    "llama-bpe": lambda: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), byte_level(False)]),
}


def reference(path):
    """The tokenizer that the GGUF file describes, without special tokens."""
    fields = GGUFReader(path).fields
    texts = {key: fields["tokenizer.ggml." + key].contents() for key in ("tokens", "merges", "pre")}
    vocabulary = {token: i for i, token in enumerate(texts["tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in texts["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=texts["pre"] == "llama-bpe"))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[texts["pre"]]()
    return tokenizer


def program_ids(program, model, text):
    if os.path.basename(program) == "kvplane":
        command = [program, "model", "tokenize", model, "--file", text, "--json"]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["tokens"]
    output = subprocess.run([program, model, text], check=True, stdout=subprocess.PIPE).stdout
    return [int(line) for line in output.split()]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    model, text, program = sys.argv[1:]
    with open(text, encoding="utf-8", newline="") as file:
        content = file.read()
    start = time.monotonic()
    expected = reference(model).encode(content).ids
    reference_time = time.monotonic() - start
    start = time.monotonic()
    found = program_ids(program, model, text)
    program_time = time.monotonic() - start
    differences = sum(a != b for a, b in zip(expected, found)) + abs(len(expected) - len(found))
    print(f"{len(expected)} reference ids in {reference_time:.2f} s, {len(found)} ids in {program_time:.2f} s, "
          f"{differences} differences")
    for i, (a, b) in enumerate(zip(expected, found)):
        if a != b:
            print(f"first difference at id {i}: reference {expected[i:i + 8]}, found {found[i:i + 8]}")
            break
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()

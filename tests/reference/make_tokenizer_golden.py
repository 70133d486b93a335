#!/usr/bin/env python3
"""Writes the golden files of tests/unit/tokenizer.

Usage: make_tokenizer_golden.py OUTPUT_FOLDER [MODEL]
  splits.json     pieces of made-up texts by each split rule, from the package `regex`
  small_bpe.json  a small vocabulary, trained here, and ids from the package `tokenizers`
  utf8.json       byte strings and what Python makes of them with errors="replace"
  smollm2.json    (with MODEL, a SmolLM2 GGUF) ids and a conversation rendered by the file's own template with jinja2
Packages: regex, tokenizers, gguf, jinja2. All random choices have a fixed seed.
"""
import json
import os
import random
import sys

import jinja2
import regex
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, models, trainers

from tokenizer_check import LLAMA3, PRE_TOKENIZERS, byte_level, reference

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# The texts that tokenizers differ on, and the edges of each alternative.
TEXTS = [
    "", "Hello world", "I've  two   spaces\n\n\tand 12345.67!", "na\xefve caf\xe9 \u4f60\u597d \U0001f642",
    "   leading", " trailing ", "it'S DON'T", "\r\n\r\nx", "\ufb01 e\u0301", "'s't're've'm'll'd",
    "'S'T'RE'VE'M'LL'D", "'r 'v 'l 'L", "\u2019s", "x'\u017f y", " 's  's", "''s", "a  b", "a   ", "\n\n\n", "a\n",
    "\n a", " \n  b", "  \n\n  c", "\t\t1", "1234567", "\xbd\xb2\u2167 \u0663\u0664", "a1b22c333d4444", "...\n\n...",
    " ...\r\n x", "\xa0a", "\u3000 \u3000x", "_a -b", "\x00\x01a", "a\u200bb", "\u0301\u0301", "$100,000.00",
    "foo(bar);\n\treturn 0;\n}", "\U0001f468\u200d\U0001f469\u200d\U0001f467 ok",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "1 2  3",
]
ALPHABET = list("aabzS'strLlvemd'   \n\r\t109.,!_") + list(
    "\u00e9\u00df\u017f\u00bd\u00b2\u2167\u0663\u00a0\u2003\u3000\u0301\u4f60\u0e31\U0001f642\u2019\u200b")


def random_texts(count, length):
    generator = random.Random(1)
    return ["".join(generator.choices(ALPHABET, k=length)) for _ in range(count)]


def split(rule, text):
    if rule == "smollm":
        parts = regex.split(r"(\p{N})", text)
        return [piece for i, part in enumerate(parts) for piece in ([part] if i % 2 else regex.findall(GPT2, part))]
    return regex.findall(LLAMA3 if rule == "llama-bpe" else GPT2, text)


def splits():
    texts = TEXTS + random_texts(40, 24)
    for rule in PRE_TOKENIZERS:
        assert all("".join(split(rule, text)) == text for text in texts)
    return [{"text": text, **{rule: split(rule, text) for rule in PRE_TOKENIZERS}} for text in texts]


def small_bpe():
    """The token whole_only has no merges: only a tokenizer that takes whole pieces first can give it."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = byte_level(True)
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=byte_level(True).alphabet(), show_progress=False,
                                  special_tokens=["<|begin|>", "<|end|>"])
    trained.train_from_iterator(TEXTS * 3 + ["the model and the models, the world's words"] * 5, trainer)
    model = json.loads(trained.to_str())["model"]
    whole_only = "\u0120zebra"
    vocabulary = {**model["vocab"], whole_only: len(model["vocab"])}
    merges = [tuple(merge) for merge in model["merges"]]
    cases = []
    for rule, pre_tokenizer in PRE_TOKENIZERS.items():
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=rule == "llama-bpe"))
        tokenizer.pre_tokenizer = pre_tokenizer()
        for text in TEXTS + random_texts(10, 24) + ["a zebra", "<|end|>"]:
            cases.append({"rule": rule, "text": text, "ids": tokenizer.encode(text).ids})
    return {"tokens": sorted(vocabulary, key=vocabulary.get), "control": [0, 1],
            "merges": [" ".join(merge) for merge in merges], "cases": cases}


def utf8():
    generator = random.Random(2)
    strings = [b"plain", "\u00e9\u4f60\U0001f642".encode(), b"\xe4\xbd", b"\xf0\x9f\x99", b"\xc0\x80", b"\xed\xa0\x80",
               b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"a\xffb", b"\xc3(", b"\xe4\xbd\xc3\xa9"]
    lead = [0x41, 0x80, 0xbf, 0xc2, 0xc3, 0xe0, 0xe4, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0x9f, 0xa0]
    strings += [bytes(generator.choices(lead, k=12)) for _ in range(60)]
    return [{"bytes": string.hex(), "text": string.decode("utf-8", "replace")} for string in strings]


def smollm2(path):
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    plain = reference(path)
    special = reference(path)
    special.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == 3])
    template = jinja2.Environment().from_string(fields["tokenizer.chat_template"].contents())
    conversations = []
    for messages in ([("user", "Hi there")],
                     [("system", "Be brief."), ("user", "\n\n1 + 1?"), ("assistant", "2"), ("user", " why ")]):
        text = template.render(messages=[{"role": r, "content": c} for r, c in messages], add_generation_prompt=True)
        conversations.append({"messages": messages, "text": text, "ids": special.encode(text).ids})
    return {"cases": [{"text": text, "ids": plain.encode(text).ids} for text in TEXTS], "conversations": conversations}


def main():
    folder = sys.argv[1]
    files = {"splits.json": splits(), "small_bpe.json": small_bpe(), "utf8.json": utf8()}
    if len(sys.argv) > 2:
        files["smollm2.json"] = smollm2(sys.argv[2])
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            json.dump(content, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main()

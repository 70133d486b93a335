"""The byte-level BPE tokenizer of a GGUF file, built with the `tokenizers` package.

The `smollm` pre-tokeniser cuts out every single digit first, then applies the GPT-2 pattern; transformers' own
reading of such a file leaves the digits step out. Control tokens (type 3) are recognised in the text.
Writes the ids of a text: python gguf_tokenizer.py MODEL.gguf TEXT OUT.npy
Needs: pip install tokenizers gguf numpy
"""
import sys

import numpy as np
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3


def load_tokenizer(path):
    fields = GGUFReader(path).fields
    contents = lambda key: fields["tokenizer.ggml." + key].contents()
    if contents("model") != "gpt2" or contents("pre") != "smollm":
        raise SystemExit(f"{path}: tokenizer {contents('model')}/{contents('pre')}, only gpt2/smollm is known here")
    tokens = contents("tokens")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(m.split(" ")) for m in contents("merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False)
                                  for t, kind in zip(tokens, contents("token_type")) if kind == CONTROL])
    return tokenizer


def main():
    model, text, out = sys.argv[1:]
    ids = load_tokenizer(model).encode(open(text, encoding="utf-8", newline="").read()).ids
    np.save(out, np.array(ids, dtype=np.int32))
    print(len(ids), "tokens")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main()

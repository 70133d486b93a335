"""Writes the small random-weight Llamas that the tests run, and their golden logits.

python make_tiny_models.py OUT_DIR [--golden]
Without --golden: only NAME.gguf, from a fixed seed (needs: pip install gguf numpy). With it also NAME.json and
NAME.f32: the token ids and the PyTorch program's logits of some rows (see golden()). OUT_DIR in this tree:
tests/golden/tiny.

Each model has a byte-level tokenizer of 272 tokens: 3 control tokens, 256 bytes, 13 merges. Weights are random with
a spread that keeps attention neither flat nor one-hot; norm weights scatter around 1. The 1-D tensors are always
F32.
"""
import argparse
import json
import os

import gguf
import numpy as np

from random_k_blocks import K_QUANTS, random_k_blocks

F32, F16, BF16 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16
Q8_0, Q4_0, Q4_1 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q4_1
Q4_K, Q5_K, Q6_K = K_QUANTS

MEDIUM = dict(layers=2, width=64, heads=4, kv_heads=2, head_size=16, ffn=64)
LARGE = dict(layers=1, width=256, heads=4, kv_heads=1, head_size=64, ffn=256)  # K-quants: blocks of 256
SMALL = dict(layers=2, width=32, heads=2, kv_heads=1, head_size=16, ffn=64)
MODELS = {
    "tiny-mha-f32": dict(layers=2, width=64, heads=4, kv_heads=4, head_size=16, ffn=96, type=F32),
    "tiny-gqa-f32": dict(layers=3, width=64, heads=4, kv_heads=2, head_size=16, ffn=64, type=F32),
    # three heads a group of size 64, as SmolLM2 has; narrower than heads * head_size, which keeps the file small
    "tiny-gqa-d64-f16": dict(layers=4, width=32, heads=6, kv_heads=2, head_size=64, ffn=32, type=F16),
    "tiny-rope-linear-f16": dict(SMALL, type=F16, rope_linear=4.0),
    "tiny-rope-llama3-f16": dict(SMALL, type=F16, rope_llama3=True),
    "tiny-untied-f16": dict(SMALL, type=F16, untied=True),
    "tiny-bf16": dict(SMALL, type=BF16),
    "tiny-q8_0": dict(MEDIUM, type=Q8_0),
    "tiny-q4_0": dict(MEDIUM, type=Q4_0),
    "tiny-q4_1": dict(MEDIUM, type=Q4_1),
    "tiny-q4_k": dict(LARGE, type=Q4_K),
    "tiny-q5_k": dict(LARGE, type=Q5_K),
    "tiny-q6_k": dict(LARGE, type=Q6_K),
}
FREQUENCY_BASE, CONTEXT = 10000.0, 512
CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["t h", "i n", "th e", "e r", "a n", "Ġ t", "Ġ a", "o n", "Ġ the", "an d", "Ġ and", "in g", "e n"]
CHAT_TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
                 "'<|im_end|>' + '\n'}}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
GOLDEN_TOKENS = 150  # more than two pages of 64
GOLDEN_ROWS = [0, 1, 39, 63, 64, 127, 128, 149]


def byte_tokens():  # GPT-2's map of bytes to printable characters
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) if b in printable else chr(256 + others.index(b)) for b in range(256)]


def add_tokenizer(writer):
    tokens = CONTROL_TOKENS + byte_tokens() + [m.replace(" ", "") for m in MERGES]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(CONTROL_TOKENS) + [1] * (len(tokens) - len(CONTROL_TOKENS)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    return len(tokens)


def llama3_divisors(head_size, factor=8.0, low=1.0, high=4.0, original_context=64):
    wavelength = 2 * np.pi * FREQUENCY_BASE ** (np.arange(0, head_size, 2) / head_size)
    smooth = (original_context / wavelength - low) / (high - low)
    divisor = 1 / (smooth + (1 - smooth) / factor)
    divisor = np.where(wavelength < original_context / high, 1.0, divisor)
    return np.where(wavelength > original_context / low, factor, divisor).astype(np.float32)


def write_model(path, name, shape):
    random = np.random.default_rng(list(name.encode()))
    s = argparse.Namespace(**shape)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(s.width)
    writer.add_block_count(s.layers)
    writer.add_feed_forward_length(s.ffn)
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(s.kv_heads)
    if s.heads * s.head_size != s.width:
        writer.add_key_length(s.head_size)
        writer.add_value_length(s.head_size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(s.head_size)
    writer.add_rope_freq_base(FREQUENCY_BASE)
    if "rope_linear" in shape:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(s.rope_linear)
    vocabulary = add_tokenizer(writer)
    writer.add_vocab_size(vocabulary)

    def matrix(tensor, rows, columns, spread):  # stored as [rows][columns]; spread: of a product with a unit row
        if s.type in K_QUANTS:
            blocks = random_k_blocks(random, s.type, rows * columns // 256, spread / np.sqrt(columns))
            writer.add_tensor(tensor, blocks.reshape(rows, -1), raw_dtype=s.type)
            return
        values = (random.standard_normal((rows, columns)) * spread / np.sqrt(columns)).astype(np.float32)
        writer.add_tensor(tensor, gguf.quants.quantize(values, s.type), raw_dtype=s.type)

    def norm(tensor):
        writer.add_tensor(tensor, (1 + 0.2 * random.standard_normal(s.width)).astype(np.float32))

    matrix("token_embd.weight", vocabulary, s.width, 3.0)
    if "rope_llama3" in shape:
        writer.add_tensor("rope_freqs.weight", llama3_divisors(s.head_size))
    for layer in range(s.layers):
        prefix = f"blk.{layer}."
        norm(prefix + "attn_norm.weight")
        matrix(prefix + "attn_q.weight", s.heads * s.head_size, s.width, 1.5)
        matrix(prefix + "attn_k.weight", s.kv_heads * s.head_size, s.width, 1.5)
        matrix(prefix + "attn_v.weight", s.kv_heads * s.head_size, s.width, 1.0)
        matrix(prefix + "attn_output.weight", s.width, s.heads * s.head_size, 1.0)
        norm(prefix + "ffn_norm.weight")
        matrix(prefix + "ffn_gate.weight", s.ffn, s.width, 1.5)
        matrix(prefix + "ffn_up.weight", s.ffn, s.width, 1.0)
        matrix(prefix + "ffn_down.weight", s.width, s.ffn, 1.0)
    norm("output_norm.weight")
    if "untied" in shape:
        matrix("output.weight", vocabulary, s.width, 3.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return vocabulary


def golden(out, name, vocabulary):
    """NAME.json {"model", "ids", "rows", "vocabulary", "logits"}; "logits" names a file of [rows][vocabulary] F32."""
    import torch
    from llama_torch import Llama
    torch.set_num_threads(1)
    ids = np.random.default_rng(list((name + " ids").encode())).integers(0, vocabulary, GOLDEN_TOKENS).tolist()
    model = Llama(os.path.join(out, name + ".gguf"))
    with torch.no_grad():
        logits = model.logits(model.forward(ids))[GOLDEN_ROWS]
    logits.numpy().astype("<f4").tofile(os.path.join(out, name + ".f32"))
    with open(os.path.join(out, name + ".json"), "w") as file:
        json.dump({"model": name + ".gguf", "ids": ids, "rows": GOLDEN_ROWS, "vocabulary": vocabulary,
                   "logits": name + ".f32"}, file)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir"), parser.add_argument("--golden", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.out_dir, exist_ok=True)
    for name, shape in MODELS.items():
        path = os.path.join(args.out_dir, name + ".gguf")
        vocabulary = write_model(path, name, shape)
        if args.golden:
            golden(args.out_dir, name, vocabulary)
        print(name, os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()

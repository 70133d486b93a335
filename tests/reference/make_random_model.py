"""Writes a Llama of any shape and tensor type with random weights: for measurements, and for sizes nobody publishes.

python make_random_model.py OUT.gguf --tokenizer MODEL.gguf [--preset P] [--type T] [--embedding-type T] [--untied] ...
  --preset       smollm2-135m (default), smollm2-135m-k (width 768: K-quants need multiples of 256) or llama-1.1b;
                 every option of the shape overrides the preset's
  --type         of all matrices: f32 f16 bf16 q8_0 q4_0 q4_1 q4_k q5_k q6_k
  --embedding-type, --output-type   default to --type
  --tokenizer    a GGUF file whose tokenizer is copied, cut or padded to the vocabulary
Weights are normal with a spread of 0.03, norms are ones. Each run of weights is a window at a random place of one pool
of 2^24 drawn values, so that a billion of them take seconds. K-quants: random_k_blocks.py.
Needs: pip install gguf numpy
"""
import argparse

import gguf
import numpy as np

from random_k_blocks import K_QUANTS, random_k_blocks

Type = gguf.GGMLQuantizationType
TYPES = {name: Type[name.upper()] for name in
         ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q5_k", "q6_k")}
SMOLLM2 = dict(layers=30, width=576, heads=9, kv_heads=3, ffn=1536, vocabulary=49152, context=8192, rope_base=100000.0)
PRESETS = {
    "smollm2-135m": SMOLLM2,
    "smollm2-135m-k": dict(SMOLLM2, width=768, heads=12, kv_heads=4, ffn=2048),
    "llama-1.1b": dict(layers=22, width=2048, heads=32, kv_heads=4, ffn=5632, vocabulary=32000, context=2048,
                       rope_base=10000.0, untied=True),
}
SPREAD, CHUNK, POOL = 0.03, 1 << 20, 1 << 24  # spread of the weights; values quantised at a time; values drawn


class Weights:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.pool = SPREAD * self.random.standard_normal(POOL + CHUNK, dtype=np.float32)

    def matrix(self, rows, columns, kind):
        if kind in K_QUANTS:
            return random_k_blocks(self.random, kind, rows * columns // 256, SPREAD).reshape(rows, -1)
        parts = []
        rows_a_part = max(1, CHUNK // columns)
        for row in range(0, rows, rows_a_part):
            n = min(rows_a_part, rows - row)
            at = self.random.integers(POOL)
            parts.append(gguf.quants.quantize(self.pool[at:at + n * columns].reshape(n, columns), kind))
        return np.concatenate(parts)


def copy_tokenizer(writer, path, vocabulary):
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()[:vocabulary]
    known = set(tokens)
    padding = [f"[PAD{i}]" for i in range(len(tokens), vocabulary)]
    for key, field in fields.items():
        if not key.startswith("tokenizer."):
            continue
        value, (kind, *items) = field.contents(), field.types
        if key == "tokenizer.ggml.tokens":
            value = tokens + padding
        elif key == "tokenizer.ggml.token_type":
            value = value[:vocabulary] + [int(gguf.TokenType.UNUSED)] * len(padding)
        elif key == "tokenizer.ggml.scores":
            value = value[:vocabulary] + [0.0] * len(padding)
        elif key == "tokenizer.ggml.merges":
            value = [m for m in value if {*m.split(" "), m.replace(" ", "")} <= known]
        elif key.endswith("_token_id") and value >= vocabulary:
            continue
        writer.add_key_value(key, value, kind, sub_type=items[-1] if items else None)


def tensors(s, kind, embedding, output):
    query, key = s.heads * s.head_size, s.kv_heads * s.head_size
    yield "token_embd.weight", s.vocabulary, s.width, embedding
    for layer in range(s.layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", None, s.width, Type.F32
        yield block + "attn_q.weight", query, s.width, kind
        yield block + "attn_k.weight", key, s.width, kind
        yield block + "attn_v.weight", key, s.width, kind
        yield block + "attn_output.weight", s.width, query, kind
        yield block + "ffn_norm.weight", None, s.width, Type.F32
        yield block + "ffn_gate.weight", s.ffn, s.width, kind
        yield block + "ffn_up.weight", s.ffn, s.width, kind
        yield block + "ffn_down.weight", s.width, s.ffn, kind
    yield "output_norm.weight", None, s.width, Type.F32
    if s.untied:
        yield "output.weight", s.vocabulary, s.width, output


def file_type(kind):
    """llama.cpp's name for a file whose matrices are mostly of this type."""
    name = kind.name + "_M" if kind in (Type.Q4_K, Type.Q5_K) else kind.name
    return gguf.LlamaFileType["ALL_F32" if kind == Type.F32 else "MOSTLY_" + name]


def write_model(path, s, tokenizer, kind, embedding, output, seed):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"random llama {s.layers} x {s.width}")
    writer.add_context_length(s.context)
    writer.add_embedding_length(s.width)
    writer.add_block_count(s.layers)
    writer.add_feed_forward_length(s.ffn)
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(s.kv_heads)
    writer.add_key_length(s.head_size)
    writer.add_value_length(s.head_size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(s.head_size)
    writer.add_rope_freq_base(s.rope_base)
    writer.add_vocab_size(s.vocabulary)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_file_type(file_type(kind))  # OpenVINO GenAI reads no file without it
    copy_tokenizer(writer, tokenizer, s.vocabulary)
    listed = list(tensors(s, kind, embedding, output))
    for name, rows, columns, type_ in listed:
        block, size = gguf.GGML_QUANT_SIZES[type_]
        if columns % block:
            raise SystemExit(f"{name} is {columns} wide, which {type_.name} does not cut into blocks of {block}")
        shape = (columns,) if rows is None else (rows, columns)
        writer.add_tensor_info(name, shape, np.float32, (rows or 1) * columns // block * size, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    weights = Weights(seed)
    for _, rows, columns, type_ in listed:
        writer.write_tensor_data(np.ones(columns, np.float32) if rows is None else
                                 weights.matrix(rows, columns, type_))
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out"), parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--preset", choices=PRESETS, default="smollm2-135m")
    parser.add_argument("--type", choices=TYPES, default="f16")
    parser.add_argument("--embedding-type", choices=TYPES), parser.add_argument("--output-type", choices=TYPES)
    parser.add_argument("--untied", action=argparse.BooleanOptionalAction)
    for name in ("layers", "width", "heads", "kv-heads", "head-size", "ffn", "vocabulary", "context"):
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--rope-base", type=float), parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    shape = argparse.Namespace(**dict(dict(untied=False, head_size=None), **PRESETS[args.preset]))
    for name in vars(shape):
        if getattr(args, name) is not None:
            setattr(shape, name, getattr(args, name))
    shape.head_size = shape.head_size or shape.width // shape.heads
    write_model(args.out, shape, args.tokenizer, TYPES[args.type], TYPES[args.embedding_type or args.type],
                TYPES[args.output_type or args.type], args.seed)


if __name__ == "__main__":
    main()

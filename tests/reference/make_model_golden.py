#!/usr/bin/env python3
"""Writes the golden files of tests/unit/model.

Usage: make_model_golden.py OUTPUT_FOLDER
  blocks.json  random blocks of each tensor type (hex) and their values, from the package `gguf`
  rope.json    inverse frequencies and magnitudes of each RoPE scaling, from the package `transformers`
Packages: gguf, numpy, torch, transformers. The random seed is fixed.
"""
import json
import os
import sys

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


def blocks():
    generator = np.random.default_rng(1)
    cases = []
    for kind, halves in ((Type.Q8_0, 1), (Type.Q4_0, 1), (Type.Q4_1, 2)):
        _, size = GGML_QUANT_SIZES[kind]
        data = generator.integers(0, 256, (3, size), dtype=np.uint8)
        data[:, :2 * halves] = generator.normal(size=(3, halves)).astype(np.float16).view(np.uint8)
        cases.append((kind, data.tobytes(), quants.dequantize(data, kind)))
    half_bits = np.array([0, 0x8000, 1, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x7bff, 0x3555, 0x8001], dtype=np.uint16)
    cases.append((Type.F16, half_bits.tobytes(), half_bits.view(np.float16).astype(np.float32)))
    brain = generator.normal(size=16).astype(np.float32).view(np.uint32) & 0xffff0000
    cases.append((Type.BF16, (brain >> 16).astype(np.uint16).tobytes(), brain.view(np.float32)))
    single = generator.normal(size=8).astype(np.float32)
    cases.append((Type.F32, single.tobytes(), single))
    for kind, half_places in ((Type.Q4_K, (0, 2)), (Type.Q5_K, (0, 2)), (Type.Q6_K, (208,))):
        _, size = GGML_QUANT_SIZES[kind]
        data = generator.integers(0, 256, (6, size), dtype=np.uint8)
        extremes = np.array([0, 0x8000, 1, 0x83ff, 0x7bff, 0xfbff], dtype=np.uint16)  # zeros, subnormals, largest
        for place in half_places:  # three blocks of usual scales, three that mix the extremes
            halves = generator.normal(size=6).astype(np.float16)
            halves[3:] = generator.permutation(extremes)[:3].view(np.float16)
            data[:, place:place + 2] = halves.reshape(6, 1).view(np.uint8)
        cases.append((kind, data.tobytes(), quants.dequantize(data, kind)))
    return [{"type": int(kind), "bytes": data.hex(), "values": [float(v) for v in values.reshape(-1)]}
            for kind, data, values in cases]


def rope():
    cases = []
    for scaling in ({"rope_type": "linear", "factor": 4.0},
                    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
                    {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}):
        config = LlamaConfig(hidden_size=512, num_attention_heads=8, max_position_embeddings=65536,
                             rope_parameters={"rope_theta": 500000.0, **scaling})
        frequencies, magnitude = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu")
        cases.append({"base": 500000.0, "dimensions": 64, **scaling, "magnitude": float(magnitude),
                      "inverse_frequencies": [float(f) for f in frequencies]})
    return cases


def main():
    for name, content in (("blocks.json", blocks()), ("rope.json", rope())):
        with open(os.path.join(sys.argv[1], name), "w", encoding="ascii") as file:
            json.dump(content, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()

#!/usr/bin/env python3
"""Golden bytes of every codec, by NumPy and from the text of ops.h and of plugins/codec alone.

    python make_codec_golden.py ../golden/codec

Writes rows_D.f16 (rows K||V, f16[65][2 * D]) for head sizes D, and CODEC_D.bin with what the codec makes of them: of the
first 64 for kivi, of all 65 for the others, whose rows stand alone. Rows hold constant groups, zeros, denormals and what is
near the end of f16.
"""
import sys

import numpy as np

TOKENS = 65
HEAD_SIZES = (16, 64, 80, 128)


def make_rows(d, rng):
    rows = rng.standard_normal((TOKENS, 2 * d)) * rng.choice([0.02, 0.5, 3.0], size=(TOKENS, 1))
    rows[:, d // 3] *= 12  # a channel that stands out, as keys have
    rows[3] = 1.25  # constant
    rows[4] = 0
    rows[5, :d] = -0.1
    rows[6] = rng.standard_normal(2 * d) * 1e-6
    rows[7, 0], rows[7, 1] = 65504, -65504
    rows[8] = 2049 + rng.integers(0, 3, 2 * d)
    rows[9, d:] = 100 + rng.standard_normal(d) * 1e-3
    return rows.astype(np.float16)


def bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def i8(row):
    """Codes of K, codes of V, the two scales."""
    codes, scales = [], []
    for half in np.split(row.astype(np.float32), 2):
        scale = np.float16(np.abs(half).max() / np.float32(127))
        q = half / np.float32(scale) if scale > 0 else np.zeros_like(half)
        codes.append(np.clip(np.rint(q), -127, 127).astype(np.int8))
        scales.append(scale)
    return np.concatenate(codes).tobytes() + np.array(scales, np.float16).tobytes()


def flexgen(row, bits):
    """Groups of 64 columns; padding zeros join minimum and maximum."""
    most = np.float32(2**bits - 1)
    codes, scales = [], []
    for half in np.split(row.astype(np.float32), 2):
        for begin in range(0, len(half), 64):
            group = half[begin : begin + 64]
            padded = np.concatenate([group, np.zeros(64 - len(group), np.float32)])
            low, high = padded.min(), padded.max()
            reciprocal = most / (high - low) if high > low else np.float32(1)
            scale, minimum = np.float16(min(reciprocal, np.float32(65504))), np.float16(low)
            q = np.rint((group - np.float32(minimum)) * np.float32(scale))
            codes.append(np.clip(q, 0, most).astype(np.uint8))
            scales += [scale, minimum]
    codes = np.concatenate(codes)
    if bits == 4:
        codes = codes[0::2] << 4 | codes[1::2]
    return codes.tobytes() + np.array(scales, np.float16).tobytes()


def kivi_group(x, bits):
    most = np.float32(2**bits - 1)
    x = x.astype(np.float32)
    scale, minimum = np.float16((x.max() - x.min()) / most), np.float16(x.min())
    if scale > 0:
        codes = np.clip(np.rint((x - np.float32(minimum)) / np.float32(scale)), 0, most).astype(np.uint8)
    else:
        codes = np.zeros(len(x), np.uint8)
    packed = np.zeros(len(x) * bits // 8, np.uint8)
    for i, code in enumerate(codes):
        packed[i * bits // 8] |= code << (i * bits % 8)
    return packed.tobytes(), np.array([scale, minimum], np.float16).tobytes()


def kivi(block, bits):
    d = block.shape[1] // 2
    keys = [kivi_group(block[:, channel], bits) for channel in range(d)]
    values = [kivi_group(block[token, d + g : d + min(g + 32, d)], bits) for token in range(32) for g in range(0, d, 32)]
    return b"".join(part for pairs in (keys, values) for which in (0, 1) for part in (pair[which] for pair in pairs))


def main():
    folder = sys.argv[1]
    rng = np.random.default_rng(20240519)
    for d in HEAD_SIZES:
        rows = make_rows(d, rng)
        encoded = {
            "f16": rows.tobytes(),
            "f32": rows.astype(np.float32).tobytes(),
            "bf16": bf16(rows).tobytes(),
            "i8": b"".join(i8(row) for row in rows),
            "int8": b"".join(flexgen(row, 8) for row in rows),
            "int4": b"".join(flexgen(row, 4) for row in rows),
            "kivi4": b"".join(kivi(rows[begin : begin + 32], 4) for begin in (0, 32)),
            "kivi2": b"".join(kivi(rows[begin : begin + 32], 2) for begin in (0, 32)),
        }
        rows.tofile(f"{folder}/rows_{d}.f16")
        for name, data in encoded.items():
            with open(f"{folder}/{name}_{d}.bin", "wb") as file:
                file.write(data)


# FlexGen's own example: 0, 1, 2, 3 with a group of four.
def check():
    x = np.array([0, 1, 2, 3], np.float32)
    scale = np.float32(15) / (x.max() - x.min())
    q = np.rint(x * scale).astype(np.uint8)
    assert bytes(q[0::2] << 4 | q[1::2]) == bytes([0x05, 0xAF])


if __name__ == "__main__":
    check()
    main()

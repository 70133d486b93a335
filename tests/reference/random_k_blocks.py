"""Random super-blocks of K-quants, which the package `gguf` reads but does not make.

Quants are uniform random bits, centred by their minimum or their sign; scales give the wanted standard deviation.
"""
import gguf
import numpy as np

Type = gguf.GGMLQuantizationType
K_QUANTS = (Type.Q4_K, Type.Q5_K, Type.Q6_K)


def half_bytes(values):
    return values.astype(np.float16).reshape(-1, 1).view(np.uint8)


# Eight scales of 6 bits, then eight minima, in 12 bytes: 32 to 63, and each minimum equal to its scale.
def packed_scales(random, blocks):
    scale = random.integers(32, 64, (blocks, 8), dtype=np.uint8)
    low, high = scale[:, :4], scale[:, 4:]
    first = low | (high >> 4) << 6  # of scales and of minima
    return np.hstack([first, first, (high & 15) | (high & 15) << 4])


def random_k_blocks(random, kind, blocks, spread):
    bits = {Type.Q4_K: 4, Type.Q5_K: 5, Type.Q6_K: 6}[kind]
    deviation = np.sqrt((4.0 ** bits - 1) / 12)  # of uniform integers
    quants = np.frombuffer(random.bytes(blocks * 32 * bits), np.uint8).reshape(blocks, 32 * bits)
    jitter = random.uniform(0.8, 1.2, blocks)
    if kind == Type.Q6_K:  # low nibbles, high pairs, i8 scales of either sign, d
        scales = random.integers(64, 128, (blocks, 16)) * random.choice([-1, 1], (blocks, 16))
        d = half_bytes(spread / deviation / 96 * jitter)
        return np.hstack([quants, scales.astype(np.int8).view(np.uint8), d])
    d = spread / deviation / 48 * jitter  # d, dmin, scales, (high bits,) nibbles
    return np.hstack([half_bytes(d), half_bytes(d * (2 ** bits - 1) / 2), packed_scales(random, blocks), quants])

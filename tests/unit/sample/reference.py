"""The draws that sampler_test.cpp expects, by NumPy in doubles and a Mersenne Twister written from its definition."""
import numpy as np

MASK = (1 << 64) - 1


def mt19937_64(seed, count):
    """The first `count` numbers of MT19937-64 (Nishimura and Matsumoto, 2000)."""
    size, middle = 312, 156
    state = [seed]
    for i in range(1, size):
        state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + i) & MASK)
    numbers, position = [], size
    for _ in range(count):
        if position == size:
            for i in range(size):
                x = (state[i] & 0xFFFFFFFF80000000) | (state[(i + 1) % size] & 0x7FFFFFFF)
                state[i] = state[(i + middle) % size] ^ (x >> 1) ^ (0xB5026F5AA96619E9 if x & 1 else 0)
            position = 0
        x = state[position]
        position += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000 & MASK
        numbers.append((x ^ (x >> 43)) & MASK)
    return numbers


# The value that the C++ standard gives for the 10,000th number of the default seed.
assert mt19937_64(5489, 10000)[-1] == 9981545732273789042


def draws(logits, temperature, seed, count, kept=None):
    """Tokens, and the least distance of a draw from a border between two tokens, as a share of the total."""
    logits = np.array(logits)
    probabilities = np.exp((logits - logits.max()) / temperature)
    order = range(len(logits)) if kept is None else sorted(kept, key=lambda token: (-probabilities[token], token))
    order = np.array(order)
    sums = np.cumsum(probabilities[order])
    points = np.array([(number >> 11) / 2**53 for number in mt19937_64(seed, count)]) * sums[-1]
    tokens = [int(order[np.searchsorted(sums, point, side="right")]) for point in points]
    return tokens, np.min(np.abs(points[:, None] - sums[None, :])) / sums[-1]


if __name__ == "__main__":
    example = [1.0, 3.0, 2.0, 0.5, -1.0, 2.5]
    probabilities = np.exp(np.array(example) - 3)
    print("probabilities", probabilities / probabilities.sum())
    print("temperature 1, seed 1:", *draws(example, 1.0, 1, 24))
    print("temperature 0.7, seed 42:", *draws(example, 0.7, 42, 24))
    print("temperature 1, seed 1, top-k 3:", *draws(example, 1.0, 1, 24, [1, 5, 2]))

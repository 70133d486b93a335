"""A Llama read from a GGUF file and run in plain F32 PyTorch: the program that kvplane's dense results are judged by.

Weights are dequantised to F32; RoPE rotates adjacent pairs, as GGUF stores Llama weights. Angles are computed in F64.
Needs: pip install torch gguf numpy
"""
import math

import numpy as np
import torch
from gguf import GGUFReader, dequantize


class Llama:
    def __init__(self, path):
        reader = GGUFReader(path)

        def field(key, default=None):
            found = reader.fields.get(key)
            return default if found is None else found.contents()

        if field("general.architecture") != "llama":
            raise SystemExit(f"{path}: architecture {field('general.architecture')!r}, only 'llama' is known here")
        self.weights = {t.name: torch.from_numpy(np.array(dequantize(t.data, t.tensor_type), dtype=np.float32))
                        for t in reader.tensors}
        self.layers = field("llama.block_count")
        self.heads = field("llama.attention.head_count")
        self.kv_heads = field("llama.attention.head_count_kv", self.heads)
        self.group = self.heads // self.kv_heads
        self.width = field("llama.embedding_length")
        self.head_size = field("llama.attention.key_length", self.width // self.heads)
        self.epsilon = field("llama.attention.layer_norm_rms_epsilon")
        if field("llama.rope.dimension_count", self.head_size) != self.head_size:
            raise SystemExit(f"{path}: partial RoPE is not known here")
        self.frequencies = self.rope_frequencies(path, field)

    def rope_frequencies(self, path, field):  # [head_size / 2] F64, angle per position
        exponent = torch.arange(0, self.head_size, 2, dtype=torch.float64) / self.head_size
        frequencies = float(field("llama.rope.freq_base", 10000.0)) ** -exponent
        kind = field("llama.rope.scaling.type", "none")
        if kind == "linear":
            frequencies = frequencies / float(field("llama.rope.scaling.factor"))
        elif kind != "none":
            raise SystemExit(f"{path}: RoPE scaling {kind!r} is not known here")
        if "rope_freqs.weight" in self.weights:  # llama3 scaling, baked by the converter into divisors
            frequencies = frequencies / self.weights["rope_freqs.weight"].double()
        return frequencies

    def weight(self, layer, name):
        return self.weights[f"blk.{layer}.{name}.weight"]

    def normalise(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight

    def rope(self, x, position):  # x [rows, heads, head_size]
        angle = position[:, None].double() * self.frequencies[None]
        cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def attend(self, q, k, v, first, chunk=512):
        """Causal attention of rows first, first + 1, ... (q [rows, heads, d]) over k, v [tokens, kv_heads, d]."""
        out = torch.empty(q.shape[0], self.heads, self.head_size)
        for begin in range(0, q.shape[0], chunk):
            end = min(q.shape[0], begin + chunk)
            seen = first + end
            future = torch.arange(seen)[None] > (first + torch.arange(begin, end))[:, None]
            for g in range(self.kv_heads):
                heads = slice(g * self.group, (g + 1) * self.group)
                score = torch.matmul(q[begin:end, heads].permute(1, 0, 2), k[:seen, g].T) / math.sqrt(self.head_size)
                weight = score.masked_fill(future, float("-inf")).softmax(-1)
                out[begin:end, heads] = torch.matmul(weight, v[:seen, g]).permute(1, 0, 2)
        return out

    def new_cache(self, tokens):
        shape = (self.layers, tokens, self.kv_heads, self.head_size)
        return {"k": torch.zeros(shape), "v": torch.zeros(shape), "length": 0}

    def forward(self, ids, cache=None, attention=None):
        """Hidden rows [len(ids), width] before the output norm; continues from and adds to the cache, if one is given.

        attention(layer, h, q, k, v, previous) stands in for attend, for a pass without a cache: h is the layer's normed
        input, q and k are post-RoPE, previous has the layer before's normed input, input and residual after attention.
        """
        ids = torch.as_tensor(ids, dtype=torch.long)
        rows = len(ids)
        cache = cache if cache is not None else self.new_cache(rows)
        first = cache["length"]
        position = torch.arange(first, first + rows)
        x, previous = self.weights["token_embd.weight"][ids].clone(), {}
        for layer in range(self.layers):
            h = self.normalise(x, self.weight(layer, "attn_norm"))
            q = (h @ self.weight(layer, "attn_q").T).view(rows, self.heads, self.head_size)
            k = (h @ self.weight(layer, "attn_k").T).view(rows, self.kv_heads, self.head_size)
            v = (h @ self.weight(layer, "attn_v").T).view(rows, self.kv_heads, self.head_size)
            q, k = self.rope(q, position), self.rope(k, position)
            if attention:
                out = attention(layer, h, q, k, v, previous)
            else:
                cache["k"][layer, first:first + rows], cache["v"][layer, first:first + rows] = k, v
                out = self.attend(q, cache["k"][layer], cache["v"][layer], first)
            previous = {"attn_input": h, "residual": x}
            x = x + out.reshape(rows, self.heads * self.head_size) @ self.weight(layer, "attn_output").T
            previous["residual_mid"] = x
            f = self.normalise(x, self.weight(layer, "ffn_norm"))
            gate = torch.nn.functional.silu(f @ self.weight(layer, "ffn_gate").T)
            x = x + (gate * (f @ self.weight(layer, "ffn_up").T)) @ self.weight(layer, "ffn_down").T
        cache["length"] = first + rows
        return x

    def logits(self, hidden):
        head = self.weights.get("output.weight", self.weights["token_embd.weight"])
        return self.normalise(hidden, self.weights["output_norm.weight"]) @ head.T

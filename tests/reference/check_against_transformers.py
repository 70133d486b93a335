"""Checks the golden logits of the tiny models, and the program behind them, against transformers' LlamaForCausalLM.

python check_against_transformers.py GOLDEN_DIR
The transformers model is set up from the GGUF's fields; its rows of W_Q and W_K are un-permuted (GGUF keeps RoPE
pairs adjacent, transformers half a head apart), RoPE scaling goes through transformers' own code. Also prints how
far the logits move if RoPE scaling is left out, so that a golden file that could not tell is noticed. Exit 1 on a
difference over 1e-4.
Needs: pip install torch transformers gguf numpy
"""
import glob
import json
import os
import sys

import numpy as np
import torch
from gguf import GGUFReader
from transformers import LlamaConfig, LlamaForCausalLM

from llama_torch import Llama

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # what make_tiny_models.py baked into rope_freqs.weight
NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
         "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def transformers_model(path, model):
    fields, w = GGUFReader(path).fields, model.weights
    value = lambda key: fields[key].contents() if key in fields else None
    rope = {"rope_type": "default"}
    if value("llama.rope.scaling.type") == "linear":
        rope = {"rope_type": "linear", "factor": value("llama.rope.scaling.factor")}
    if "rope_freqs.weight" in w:
        rope = dict(LLAMA3)
    config = LlamaConfig(
        vocab_size=w["token_embd.weight"].shape[0], hidden_size=model.width, num_hidden_layers=model.layers,
        intermediate_size=value("llama.feed_forward_length"), head_dim=model.head_size,
        rms_norm_eps=model.epsilon, max_position_embeddings=512, tie_word_embeddings="output.weight" not in w,
        rope_parameters={"rope_theta": value("llama.rope.freq_base"), **rope},
        attn_implementation="eager")
    # set afterwards: the constructor refuses a width that is no multiple of the heads; an explicit head size allows it
    config.num_attention_heads, config.num_key_value_heads = model.heads, model.kv_heads
    state = {"model.embed_tokens.weight": w["token_embd.weight"], "model.norm.weight": w["output_norm.weight"],
             "lm_head.weight": w.get("output.weight", w["token_embd.weight"])}
    for layer in range(model.layers):
        for ours, theirs in NAMES.items():
            tensor = model.weight(layer, ours)
            if ours in ("attn_q", "attn_k"):
                tensor = tensor.view(-1, model.head_size // 2, 2, model.width).transpose(1, 2).reshape(tensor.shape)
            state[f"model.layers.{layer}.{theirs}.weight"] = tensor
    other = LlamaForCausalLM(config).float().eval()
    missing, unexpected = other.load_state_dict(state, strict=False)
    assert not unexpected and not [m for m in missing if "rotary" not in m], (missing, unexpected)
    return other


def main(folder):
    torch.set_num_threads(1)
    worst = 0.0
    for description in sorted(glob.glob(os.path.join(folder, "*.json"))):
        g = json.load(open(description))
        path, ids = os.path.join(folder, g["model"]), torch.tensor(g["ids"])
        stored = np.fromfile(os.path.join(folder, g["logits"]), "<f4").reshape(len(g["rows"]), g["vocabulary"])
        model = Llama(path)
        with torch.no_grad():
            theirs = transformers_model(path, model)(ids[None]).logits[0].numpy()
            model.frequencies = 10000.0 ** -(torch.arange(0, model.head_size, 2, dtype=torch.float64) / model.head_size)
            unscaled = model.logits(model.forward(ids)).numpy()
        difference = np.abs(stored - theirs[g["rows"]]).max()
        worst = max(worst, difference)
        print(f"{g['model']:28} largest difference {difference:.1e}, logits' spread {stored.std():.2f}, "
              f"without RoPE scaling {np.abs(unscaled[g['rows']] - stored).max():.1e}")
    return int(worst > 1e-4)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1]))

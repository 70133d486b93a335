"""llama.cpp through llama-cpp-python. Settings: flash attention off or on, type of the KV cache."""

import llama_cpp as C
from llama_cpp import llama_cpp as low

import driver
import llama_family

TYPES = {"f16": 1, "q8_0": 8}  # ggml's numbers


class Api:
    no_batches = ""

    def __init__(self, model, threads, setting):
        self.flash, self.kv = {"fa-off": (False, "f16"), "fa-on": (True, "f16"), "fa-on-q8_0": (True, "q8_0")}[setting]
        self.threads = threads
        low.llama_backend_init()
        self.model = low.llama_model_load_from_file(model.encode(), low.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"cannot load {model}")
        self.vocabulary = low.llama_vocab_n_tokens(low.llama_model_get_vocab(self.model))
        self.batch_init, self.decode, self.free_context = low.llama_batch_init, low.llama_decode, low.llama_free

    def new_context(self, rows, sequences):
        params = low.llama_context_default_params()
        # Each sequence gets its own part of the cache, cut to 256 rows.
        params.n_ctx = (rows + 255) // 256 * 256 * sequences
        params.n_batch = params.n_ubatch = llama_family.CHUNK
        params.n_seq_max = sequences
        params.kv_unified = False
        params.n_threads = params.n_threads_batch = self.threads
        params.flash_attn_type = 1 if self.flash else 0
        params.type_k = params.type_v = TYPES[self.kv]
        context = low.llama_init_from_model(self.model, params)
        if not context:
            raise SystemExit("no context")
        return context

    def logits(self, context, row):
        low.llama_get_logits_ith(context, row)

    def remove(self, context, sequence, begin):
        low.llama_memory_seq_rm(low.llama_get_memory(context), sequence, begin, -1)

    def clear(self, context):
        low.llama_memory_clear(low.llama_get_memory(context), True)


if __name__ == "__main__":
    given = driver.arguments()
    driver.emit_version(given, f"llama-cpp-python {C.__version__}")
    llama_family.measure(Api(given.model, given.threads, given.setting), given)

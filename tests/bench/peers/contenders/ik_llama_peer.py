"""ik_llama.cpp through ik-llama-cpp-python. Settings: flash attention off or on, type of the KV cache, weights repacked
when they are loaded."""

import ctypes
import importlib.metadata

from ik_llama_cpp import _ctypes_api as C

import driver
import llama_family

TYPES = {"f16": 1, "q8_0": 8}  # ggml's numbers
SETTINGS = {  # flash attention, KV type, repacked
    "fa-off": (False, "f16", False),
    "fa-on": (True, "f16", False),
    "fa-on-q8_0": (True, "q8_0", False),
    "fa-on-repacked": (True, "f16", True),
}

# Not among the package's bindings, but in its library.
_remove = C._lib.llama_kv_cache_seq_rm
_remove.argtypes, _remove.restype = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32], ctypes.c_bool


class Api:
    def __init__(self, model, threads, setting):
        self.flash, self.kv, repacked = SETTINGS[setting]
        self.threads = threads
        # 0.1.5 ends the process there, whatever the prompts.
        self.no_batches = "GGML_ASSERT(S > 0): no flash attention over several sequences" if self.flash else ""
        C.llama_backend_init()
        params = C.llama_model_default_params()
        params.n_gpu_layers = 0
        params.repack_tensors, params.use_mmap = repacked, not repacked
        self.model = C.llama_model_load_from_file(model.encode(), params)
        if not self.model:
            raise SystemExit(f"cannot load {model}")
        self.vocabulary = C.llama_vocab_n_tokens(C.llama_model_get_vocab(self.model))
        self.batch_init, self.decode, self.free_context = C.llama_batch_init, C.llama_decode, C.llama_free

    def new_context(self, rows, sequences):
        params = C.llama_context_default_params()
        params.n_ctx = (rows * sequences + 255) // 256 * 256
        params.n_batch = params.n_ubatch = llama_family.CHUNK
        params.n_seq_max = sequences
        params.n_threads = params.n_threads_batch = self.threads
        params.flash_attn = self.flash
        params.type_k = params.type_v = TYPES[self.kv]
        context = C.llama_init_from_model(self.model, params)
        if not context:
            raise SystemExit("no context")
        return context

    def logits(self, context, row):
        C.llama_get_logits_ith(context, row)

    def remove(self, context, sequence, begin):
        _remove(context, sequence, begin, -1)

    def clear(self, context):
        C.llama_kv_cache_clear(context)


if __name__ == "__main__":
    given = driver.arguments()
    driver.emit_version(given, "ik-llama-cpp-python " + importlib.metadata.version("ik-llama-cpp-python"))
    llama_family.measure(Api(given.model, given.threads, given.setting), given)

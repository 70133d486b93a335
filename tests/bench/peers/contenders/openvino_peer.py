"""OpenVINO GenAI, which reads the GGUF file itself. Settings: precision of the KV cache.

It cannot take tokens back, so every depth is a prompt of its own, which is timed as well."""

import numpy as np
import openvino as ov
import openvino_genai as genai

import driver

SETTINGS = {"kv-f16": "f16", "kv-u8": "u8"}


class Pipeline:
    def __init__(self, given):
        self.pipeline = genai.LLMPipeline(given.model, "CPU", INFERENCE_NUM_THREADS=given.threads,
                                          KV_CACHE_PRECISION=SETTINGS[given.setting])
        self.random = np.random.default_rng(0)

    def run(self, prompt, new, sequences=1):
        """Tokens per second of the prompt and of the tokens after the first, of all sequences together."""
        ids = self.random.integers(100, 40000, (sequences, prompt)).astype(np.int64)
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        metrics = self.pipeline.generate(inputs, max_new_tokens=new + 1, ignore_eos=True, do_sample=False).perf_metrics
        times = metrics.raw_metrics.m_new_token_times  # ms
        seconds = (times[-1] - times[0]) / 1000
        decoded = sum(metrics.raw_metrics.m_batch_sizes[1:])
        return prompt * sequences / metrics.get_ttft().mean * 1000, decoded / seconds if seconds > 0 else None


def measure(pipeline, given):
    pipeline.run(32, 8)
    prefills = {c.tokens: c for c in given.cells if c.prefill}
    decodes = {c.depth: c for c in given.cells if not c.prefill and c.sequences == 1}
    for length in sorted(set(prefills) | set(decodes)):
        new = decodes[length].tokens if length in decodes else 1
        runs = [pipeline.run(max(1, length), new) for _ in range(driver.repeats_of(given, length))]
        if length in prefills:
            driver.emit(given, prefills[length], [prefill for prefill, _ in runs])
        if length in decodes:
            driver.emit(given, decodes[length], [decode for _, decode in runs])
    for cell in given.cells:
        if cell.sequences > 1:
            pipeline.run(1, 2, cell.sequences)
            runs = [pipeline.run(1, cell.tokens, cell.sequences) for _ in range(given.repeats)]
            driver.emit(given, cell, [decode for _, decode in runs])


if __name__ == "__main__":
    given = driver.arguments()
    driver.emit_version(given, f"openvino-genai {genai.__version__}")
    measure(Pipeline(given), given)

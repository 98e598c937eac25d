"""llama.cpp through llama-cpp-python, on all cores; like its perplexity tool, one sequence per batch."""

import ctypes
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench.checkpoints.folders import made_once
from jobs.process import available_cores

_LONGEST = 512


@dataclass(slots=True)
class Model:
    network: Any
    context: Any
    vocab_size: int
    precision: str


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Write the GGUF file once, and load it."""
    from llama_cpp import llama_cpp

    file = made_once(
        folder / f"llamacpp-{precision}.gguf",
        lambda out: ["bench.checkpoints.gguf_file", str(checkpoint), str(out), precision],
    )
    llama_cpp.llama_log_set(_SILENT, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    network = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
    if not network:
        raise RuntimeError(f"llama.cpp cannot load {file}")
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = _LONGEST
    settings.n_threads = settings.n_threads_batch = available_cores()
    context = llama_cpp.llama_init_from_model(network, settings)
    vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(network))
    return Model(network, context, vocab_size, precision)


def score(model: Model, sequences: list[list[int]]) -> list[list[float]]:
    """log p of every token but the first."""
    import torch  # its log-softmax runs on all cores; llama.cpp's own is in its perplexity tool
    from llama_cpp import llama_cpp

    found = []
    batch = llama_cpp.llama_batch_init(_LONGEST, 0, 1)
    for ids in sequences:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.context), False)
        batch.n_tokens = len(ids)
        for place, token_id in enumerate(ids):
            batch.token[place] = token_id
            batch.pos[place] = place
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = 0
            batch.logits[place] = True
        if llama_cpp.llama_decode(model.context, batch):
            raise RuntimeError("llama.cpp could not decode")
        rows = np.ctypeslib.as_array(llama_cpp.llama_get_logits(model.context), (len(ids), model.vocab_size))
        logits = torch.from_numpy(rows)[:-1]
        log_probs = -torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")
        found.append(log_probs.tolist())
    llama_cpp.llama_batch_free(batch)
    return found


def configuration(model: Model) -> str:
    return (
        f"llama-cpp-python {version('llama-cpp-python')}, {model.precision}, {available_cores()} threads, "
        "a sequence a batch"
    )


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def _SILENT(level: int, text: bytes, data: Any) -> None:
    """llama.cpp tells a lot about what it loads. A callback lives as long as its name: so it has one."""

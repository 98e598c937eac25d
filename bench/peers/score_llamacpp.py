"""llama.cpp through llama-cpp-python, on all cores; like its perplexity tool, one sequence per batch."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers.llamacpp_network import load_network
from jobs.system.process import available_cores

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

    network = load_network(checkpoint, folder, precision)
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

"""llama.cpp through llama-cpp-python, on all cores: all prompts are sequences of one context, a token of each a call.

The precision is that of the weights, `f32` or `q8_0`; with `-kv32` behind it, keys and values are kept in float32
instead of float16, llama.cpp's default.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness.fastest import fastest
from bench.peers.llamacpp_network import load_network
from jobs.system.process import available_cores

_MAX_BATCH = 2048  # tokens of a call: llama.cpp's default
_ROUNDED = 256  # positions: a context is a multiple of it


@dataclass(frozen=True, slots=True)
class Setting:
    """How a context keeps keys and values, and how the prompts are read."""

    unified: bool  # one buffer for all sequences, and attention masked; or one for each
    flash: bool  # attention in one kernel
    together: bool = True  # as many prompts in a call as fit; or one


@dataclass(slots=True)
class Model:
    network: Any
    vocab_size: int
    precision: str
    setting: Setting
    context: Any = None
    opened: tuple[Setting, int, int] | None = None  # what `context` was opened for: setting, sequences, positions


def prepare(checkpoint: Path, folder: Path, precision: str) -> Model:
    """Write the GGUF file once, and load it."""
    from llama_cpp import llama_cpp

    network = load_network(checkpoint, folder, precision.removesuffix("-kv32"))
    vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(network))
    return Model(network, vocab_size, precision, Setting(unified=False, flash=True))


def tune(model: Model, prompts: list[list[int]], new_tokens: int) -> None:
    """The fastest way to keep keys and values, then the fastest way to read prompts."""

    def run(setting: Setting) -> None:
        model.setting = setting
        generate(model, prompts, new_tokens)

    kept = fastest([Setting(unified, flash) for unified in (False, True) for flash in (False, True)], run)
    model.setting = fastest([kept, replace(kept, together=False)], run)


def generate(model: Model, prompts: list[list[int]], new_tokens: int) -> list[list[int]]:
    """What each prompt is continued with."""
    from llama_cpp import llama_cpp

    _open(model, len(prompts), max(map(len, prompts)) + new_tokens)
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.context), False)
    order = sorted(range(len(prompts)), key=lambda index: -len(prompts[index]))
    found: list[list[int]] = [[] for _ in prompts]
    batch = llama_cpp.llama_batch_init(_MAX_BATCH, 0, 1)
    for some in _packs(order, prompts, _MAX_BATCH if model.setting.together else 0):
        chosen = _decode(model, batch, [(index, 0, prompts[index]) for index in some])
        for index, token_id in zip(some, chosen, strict=True):
            found[index].append(token_id)
    for number in range(new_tokens - 1):
        rows = [(index, len(prompts[index]) + number, found[index][-1:]) for index in range(len(prompts))]
        for index, token_id in enumerate(_decode(model, batch, rows)):
            found[index].append(token_id)
    llama_cpp.llama_batch_free(batch)
    return found


def _open(model: Model, sequences: int, positions: int) -> None:
    """A context for so many sequences of so many positions, unless it is open."""
    from llama_cpp import llama_cpp

    wanted = (model.setting, sequences, positions)
    if model.opened == wanted:
        return
    if model.context is not None:
        llama_cpp.llama_free(model.context)
    settings = llama_cpp.llama_context_default_params()
    settings.n_seq_max = sequences
    settings.n_ctx = sequences * (-(-positions // _ROUNDED) * _ROUNDED)
    settings.n_threads = settings.n_threads_batch = available_cores()
    settings.kv_unified = model.setting.unified
    settings.flash_attn_type = (
        llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED if model.setting.flash else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    if model.precision.endswith("-kv32"):
        settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
    model.context, model.opened = llama_cpp.llama_init_from_model(model.network, settings), wanted
    if not model.context:
        raise RuntimeError(f"llama.cpp opens no context for {sequences} sequences of {positions} positions")


def _packs(order: Sequence[int], prompts: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """The prompts that are read in one call: their tokens are at most `max_tokens`, or it is one prompt."""
    pack: list[int] = []
    for index in order:
        if pack and sum(len(prompts[one]) for one in (*pack, index)) > max_tokens:
            yield pack
            pack = []
        pack.append(index)
    yield pack


def _decode(model: Model, batch: Any, rows: Sequence[tuple[int, int, Sequence[int]]]) -> list[int]:
    """Read (sequence, position, ids) of each row, in one call; returns the most likely next id of each."""
    from llama_cpp import llama_cpp

    place = 0
    for sequence, position, ids in rows:
        for number, token_id in enumerate(ids):
            batch.token[place] = token_id
            batch.pos[place] = position + number
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = sequence
            batch.logits[place] = number == len(ids) - 1
            place += 1
    batch.n_tokens = place
    if llama_cpp.llama_decode(model.context, batch):
        raise RuntimeError("llama.cpp could not decode")
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(model.context), (len(rows), model.vocab_size))
    chosen: list[int] = logits.argmax(axis=1).tolist()
    return chosen


def configuration(model: Model) -> str:
    setting = model.setting
    return (
        f"llama-cpp-python {version('llama-cpp-python')}, {model.precision}, {available_cores()} threads, "
        f"{'one buffer' if setting.unified else 'a buffer a sequence'}, "
        f"{'flash' if setting.flash else 'plain'} attention, "
        f"prompts read {'together' if setting.together else 'one by one'}"
    )

"""
How far log-probabilities are from those of transformers around every limit that a configuration can name.

    python -m bench.long_texts [FAMILY ...]            extra `train`; and onnxruntime-genai for its exports

Tiny models with random weights of each family are exported, and texts are read that are as long as the limit, one token
longer and 64 longer. Before: the graph as it is, up to the positions that config.json names. After: as kvjobs reads it.
Pieces have 16 tokens here, as they have 512 where a limit is 4,096: a long text is read in several before the limit.

What is measured is the largest difference of a token's log-probability, in nats. A text that is longer than the model
may read is read in windows, each compared with transformers on the same window.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jobs.errors import ModelError
from jobs.tasks.score import Window
from worker.engine.causal.exported import reader as exported_reader
from worker.engine.causal.open import open_causal_model
from worker.engine.causal.protocol import CausalModel, Group
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.scoring import cut_windows
from worker.model_tools.verify.transformers_references import TransformersCausal
from worker.models.departures import departures
from worker.models.departures.departures import Departures

VOCAB = 97
PIECE = 16  # tokens
BEYOND = 64
TASK = "text-generation-with-past"

_SIZES = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.3, "bos_token_id": 1,
    "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_LONGROPE = {
    "original_max_position_embeddings": 64,
    "sliding_window": None,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1 + 0.05 * pair for pair in range(8)],
        "long_factor": [1.0 + 3 * pair for pair in range(8)],
    },
}
_LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
_FALCON = {
    "vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "alibi": True, "multi_query": False,
    "parallel_attn": False, "initializer_range": 0.3, "max_position_embeddings": 512,
}  # fmt: skip
_LAYERS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 64}
_GEMMA = {"head_dim": 16, "query_pre_attn_scalar": 16, **_LAYERS}


@dataclass(frozen=True, slots=True)
class Family:
    """A model of transformers, one of whose settings is a limit."""

    model_type: str
    limit: str  # what the setting is called
    at: int  # tokens
    settings: dict[str, Any]
    exporters: Sequence[str] = ("Optimum",)
    own: dict[str, Any] = field(default_factory=lambda: dict(_SIZES))  # sizes


FAMILIES = {
    "phi3, longrope": Family("phi3", "original_max_position_embeddings", 64, _LONGROPE, ("Optimum", "genai")),
    "llama, llama3": Family(
        "llama", "original_max_position_embeddings", 64, {"rope_scaling": _LLAMA3}, ("Optimum", "genai", "kvjobs")
    ),
    "llama, yarn": Family(
        "llama", "original_max_position_embeddings", 64, {"rope_scaling": _YARN}, ("Optimum", "kvjobs")
    ),
    "llama, dynamic": Family(
        "llama", "max_position_embeddings", 256, {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    ),
    "mistral": Family("mistral", "sliding_window", 64, {"sliding_window": 64}, ("Optimum", "genai", "kvjobs")),
    "qwen2": Family(
        "qwen2", "sliding_window", 64, {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 64},
        ("Optimum", "kvjobs"),
    ),
    "qwen3": Family(
        "qwen3", "sliding_window", 64,
        {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 64, "head_dim": 16},
        ("Optimum", "kvjobs"),
    ),
    "phi3": Family(
        "phi3", "sliding_window", 64, {"sliding_window": 64, "original_max_position_embeddings": 256},
        ("Optimum", "genai"),
    ),
    "gemma2": Family(
        "gemma2", "sliding_window", 64,
        {**_GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None}, ("Optimum", "genai"),
    ),
    "gemma3_text": Family(
        "gemma3_text", "sliding_window", 64,
        {
            **_GEMMA, "num_hidden_layers": 6, "layer_types": [*["sliding_attention"] * 5, "full_attention"],
            "rope_local_base_freq": 100.0,
        }, ("Optimum", "genai"),
    ),
    "gemma3_text, other layers": Family("gemma3_text", "sliding_window", 64, _GEMMA, ("Optimum", "genai")),
    "gpt_neo": Family(
        "gpt_neo", "window_size", 64,
        {
            "vocab_size": VOCAB, "hidden_size": 64, "num_layers": 2, "num_heads": 4, "window_size": 64,
            "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 256, "initializer_range": 0.3,
        }, own={},
    ),
    "falcon, 4 heads": Family("falcon", "alibi", 257, {**_FALCON, "num_attention_heads": 4}, own={}),
    "falcon, 32 heads": Family("falcon", "alibi", 257, {**_FALCON, "num_attention_heads": 32}, own={}),
    "bloom": Family(
        "bloom", "seq_length", 64,
        {"vocab_size": VOCAB, "hidden_size": 64, "n_layer": 2, "n_head": 4, "seq_length": 64, "initializer_range": 0.3},
        own={},
    ),
    "mpt": Family(
        "mpt", "max_seq_len", 64,
        {
            "vocab_size": VOCAB, "d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 64,
            "initializer_range": 0.3,
        }, own={},
    ),
    "gpt2": Family(
        "gpt2", "n_positions", 64,
        {"vocab_size": VOCAB, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.3},
        own={},
    ),
    "opt": Family(
        "opt", "max_position_embeddings", 64,
        {
            "vocab_size": VOCAB, "hidden_size": 64, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 64, "word_embed_proj_dim": 64, "init_std": 0.3,
        }, own={},
    ),
    "gpt_neox": Family("gpt_neox", "max_position_embeddings", 256, {"rotary_pct": 0.5}),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """A line of the table."""

    family: str
    exporter: str
    limit: str
    lengths: Sequence[int]
    before: float | None  # nats; None: the graph does not run at all
    after: float | None  # None: it is refused
    reads: int | None  # tokens at once


def write_checkpoint(family: Family, folder: Path) -> None:
    """Random weights, the same each time."""
    import torch
    import transformers

    torch.manual_seed(7)
    config = transformers.AutoConfig.for_model(family.model_type, **(family.own | family.settings))
    transformers.AutoModelForCausalLM.from_config(config).eval().save_pretrained(folder)
    _write_tokenizer(folder)


def export(exporter: str, checkpoint: Path, folder: Path) -> Path:
    """The checkpoint as a graph; raises ModelError where that exporter is not installed or cannot."""
    if exporter == "kvjobs":
        from worker.model_tools.add.add import Request, add_model

        return Path(add_model(Request(source=str(checkpoint), name="own"), folder).path)
    if exporter == "Optimum":
        from optimum.exporters.onnx import main_export

        main_export(str(checkpoint), folder, task=TASK, do_validation=False)
        return folder
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-p", "fp32", "-e", "cpu"]
    places = ["-i", str(checkpoint), "-o", str(folder), "-c", str(folder / "cache")]
    done = subprocess.run([*builder, *places], capture_output=True, text=True, env=os.environ, check=False)
    if done.returncode:
        raise ModelError((done.stderr.strip() or "genai cannot export it").splitlines()[-1])
    (folder / "config.json").write_bytes((checkpoint / "config.json").read_bytes())
    return folder


def measure(name: str, family: Family, exporter: str, checkpoint: Path, folder: Path) -> Measured:
    """Both columns of one line."""
    judge = TransformersCausal.open(checkpoint)
    lengths = [family.at, *(longer for longer in (family.at + 1, family.at + BEYOND) if _takes(family, longer))]
    rng = np.random.default_rng(3)
    texts = [rng.integers(3, VOCAB, length).tolist() for length in lengths]
    before = unlimited(folder)
    try:
        after: CausalModel | None = open_causal_model(folder)
    except ModelError:
        after = None
    return Measured(
        name,
        exporter,
        f"{family.limit} = {family.at}",
        lengths,
        worst(before, judge, texts),
        worst(after, judge, texts) if after else None,
        after.max_positions if after else None,
    )


def _takes(family: Family, length: int) -> bool:
    """Whether the transformers model has so many positions; some have no limit."""
    positions = (family.own | family.settings).get("max_position_embeddings", 0)
    return family.limit != "max_position_embeddings" and (length <= positions or family.model_type == "bloom")


def unlimited(folder: Path) -> CausalModel:
    """The model without the limits that kvjobs finds in its graph."""
    looks = departures._CHECKS
    departures._CHECKS = ()
    try:
        model = open_causal_model(folder)
    finally:
        departures._CHECKS = looks
    assert model.departures == Departures()
    return model


def worst(model: CausalModel, judge: TransformersCausal, texts: Sequence[Sequence[int]]) -> float:
    """The largest difference of a token's log-probability, each text in the windows that it is read in."""
    gaps = [0.0]
    with _small_pieces():
        for ids in texts:
            size = model.max_positions
            for span in cut_windows(len(ids), Window.STRIDE, size, max(1, size // 2)):
                window = ids[span.start : span.stop]
                reader = model.new_reader()
                ((_, (ours,)),) = reader.read([Group((), (window,))], RunContext())
                theirs = judge.log_probs([window])[0]
                scored = slice(span.first_scored - span.start - 1, None)
                gaps.append(float(np.abs(ours[scored] - theirs[scored]).max()))
    return max(gaps)


@contextmanager
def _small_pieces() -> Iterator[None]:
    before = exported_reader.MAX_TOKENS, exported_reader.MIN_PIECE
    exported_reader.MAX_TOKENS = exported_reader.MIN_PIECE = PIECE
    try:
        yield
    finally:
        exported_reader.MAX_TOKENS, exported_reader.MIN_PIECE = before


def measure_all(
    names: Sequence[str], *, exporters: Sequence[str] = ("Optimum", "genai", "kvjobs"), tell: Callable[[str], None]
) -> Iterator[Measured]:
    """Export each family with each exporter, and measure; `tell` is called with what cannot be exported."""
    for name in names:
        family = FAMILIES[name]
        with tempfile.TemporaryDirectory() as place:
            checkpoint = Path(place) / "checkpoint"
            write_checkpoint(family, checkpoint)
            for exporter in family.exporters:
                if exporter not in exporters:
                    continue
                try:
                    folder = export(exporter, checkpoint, Path(place) / exporter)
                except (ModelError, ImportError) as error:
                    tell(f"{name}, {exporter}: {error}")
                else:
                    yield measure(name, family, exporter, checkpoint, folder)


def _write_tokenizer(folder: Path) -> None:
    """Any tokenizer will do: the texts are given as ids."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {"<unk>": 0} | {f"w{number}": number for number in range(1, VOCAB)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)


def table(rows: Sequence[Measured]) -> Iterator[str]:
    """In Markdown."""
    yield "| family | exported by | limit | lengths | before | after | reads at once |"
    yield "|---|---|---|---|---:|---:|---:|"
    for row in rows:
        after = "refused" if row.after is None else f"{row.after:.1e}"
        before = "-" if row.before is None else f"{row.before:.1e}"
        lengths = ", ".join(map(str, row.lengths))
        reads = row.reads or "-"
        yield f"| {row.family} | {row.exporter} | `{row.limit}` | {lengths} | {before} | {after} | {reads} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How exact long texts are around every limit of a configuration.")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {'; '.join(FAMILIES)}; all without one")
    names = parser.parse_args().families
    if unknown := [name for name in names if name not in FAMILIES]:
        parser.error(f"no family is called {unknown[0]!r}; there are {'; '.join(FAMILIES)}")
    warnings.simplefilter("ignore")
    for line in table(list(measure_all(names or list(FAMILIES), tell=lambda text: print(text, file=sys.stderr)))):
        print(line)


if __name__ == "__main__":
    main()

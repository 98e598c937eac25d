"""
The exported graphs of a translation model, open and ready: their sessions and their layout.

Shared by all lanes of a process: nothing here changes after `open`, and onnxruntime sessions may be run by several
threads at once.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from jobs.errors import ModelError, SpecError
from jobs.tasks.shared_options import CachePolicy
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.engine.runtime.session import open_session
from worker.engine.seq2seq.exported.kv_cache import ExportedKVCache
from worker.models.file_names import DECODER, ENCODER, MERGED, WITH_PAST
from worker.models.layout.graph_signature import GraphSignature
from worker.models.layout.seq2seq_layout import LayoutKind, Seq2SeqLayout, find_graphs, read_layout


@dataclass(frozen=True, slots=True)
class ExportedSeq2SeqGraphs:
    """An encoder, a decoder that reads a whole prefix, and (where the graphs have a cache) one that reads one token.

    In the merged layout both decoders are one session; the input `use_cache_branch` selects one.
    """

    layout: Seq2SeqLayout
    encoder: onnxruntime.InferenceSession
    first_decoder: onnxruntime.InferenceSession
    next_decoder: onnxruntime.InferenceSession | None
    first_inputs: frozenset[str]
    next_inputs: frozenset[str]
    dummy_length: int  # merged: the length of the dummy past that the first step gets

    @classmethod
    def open(
        cls,
        folder: Path,
        config: Mapping[str, Any],
        *,
        threads: int = 1,
        providers: Sequence[Provider] = (CPU_PROVIDER,),
    ) -> Self:
        """Open every graph in `folder`; raise ModelError now, not at the first document."""
        files = find_graphs(folder)
        sessions = {name: open_session(file, threads=threads, providers=providers) for name, file in files.items()}
        graphs = {name: GraphSignature.of(files[name], session) for name, session in sessions.items()}
        layout = read_layout(graphs, config)
        first, following = (MERGED, MERGED) if MERGED in files else (DECODER, WITH_PAST)
        return cls(
            layout=layout,
            encoder=sessions[ENCODER],
            first_decoder=sessions[first],
            next_decoder=sessions.get(following),
            first_inputs=frozenset(graphs[first].inputs),
            next_inputs=frozenset(graphs[following].inputs) if following in graphs else frozenset(),
            dummy_length=_dummy_length(files[first], sessions[first], layout)
            if layout.kind is LayoutKind.MERGED
            else 0,
        )

    @property
    def has_cache(self) -> bool:
        return self.layout.cache is not None

    def check_cache(self, policy: CachePolicy) -> None:
        if policy.mode in ("on", "hybrid") and not self.has_cache:
            raise SpecError(
                f"cache is {policy}, but the model's graphs have no cache: use --cache auto or off, or export the "
                "model with `--task text2text-generation-with-past`"
            )

    def new_cache(self) -> ExportedKVCache:
        """The buffers of one lane."""
        return ExportedKVCache(self.layout.cache)

    def dummy_past(self, num_rows: int) -> dict[str, NDArray[Any]]:
        """The past that a merged graph requires at the first step but does not read; empty for other graphs."""
        shape = self.layout.cache
        if shape is None:
            return {}
        dummy = np.zeros((num_rows, shape.num_heads, self.dummy_length, shape.head_size), shape.dtype)
        return {past: dummy for side in ("decoder", "encoder") for past, _ in shape.names(side)}

    def shrink_arena(self) -> None:
        """Free the unused memory of the encoder's arena: memory that a call allocated before it ran out stays in the
        arena, where nothing else can use it. (Of 120 MB, this freed 116.)"""
        options = onnxruntime.RunOptions()
        options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        options.log_severity_level = 4
        token = np.ones((1, 1), np.int64)
        with contextlib.suppress(Exception):  # onnxruntime has no common base class; only an attempt
            self.encoder.run(["last_hidden_state"], {"input_ids": token, "attention_mask": token}, options)


def _dummy_length(file: Path, session: onnxruntime.InferenceSession, layout: Seq2SeqLayout) -> int:
    """The shortest past that a merged graph accepts at the first step: 0, or 1 if it refuses 0."""
    assert layout.cache is not None
    quiet = onnxruntime.RunOptions()
    quiet.log_severity_level = 4  # a refusal is expected, and not logged
    reasons = []
    for length in (0, 1):
        shape = (1, layout.cache.num_heads, length, layout.cache.head_size)
        feed: dict[str, Any] = {
            "input_ids": np.zeros((1, 1), np.int64),
            "encoder_attention_mask": np.ones((1, 1), np.int64),
            "encoder_hidden_states": np.zeros((1, 1, layout.width), layout.hidden_dtype),
            "decoder_attention_mask": np.ones((1, 1), np.int64),
            "use_cache_branch": np.array([False]),
        }
        for side in ("decoder", "encoder"):
            feed.update({past: np.zeros(shape, layout.cache.dtype) for past, _ in layout.cache.names(side)})
        known = {tensor.name for tensor in session.get_inputs()}
        try:
            session.run(["logits"], {name: value for name, value in feed.items() if name in known}, quiet)
        except Exception as error:  # onnxruntime has no common base class for the errors of a call
            reasons.append(str(error))
        else:
            return length
    raise ModelError(f"{file} cannot run its first step: {reasons[-1].strip()[:300]}")

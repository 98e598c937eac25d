"""
A causal language model in a GGUF file, and the reader that a lane gets.

Knows: the file of a model folder. Does not know: which sequences are read together.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from jobs.errors import SpecError
from jobs.tasks.shared_options import CachePolicy
from worker.engine.causal.continuous_generation import ContinuousGenerator
from worker.engine.causal.llamacpp.context import ContextLimits
from worker.engine.causal.llamacpp.generation_rows import LlamaCppRows
from worker.engine.causal.llamacpp.library import llama_cpp
from worker.engine.causal.llamacpp.network import Network
from worker.engine.causal.llamacpp.reader import LlamaCppReader
from worker.engine.search.continuation_rules import ContinuationRules
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_network import GgufNetwork
from worker.models.departures.departures import Departures
from worker.models.file_names import GGUF_MODEL

_PAD = 256  # tokens: llama.cpp rounds the size of a context up to a multiple


@dataclass(frozen=True, slots=True)
class LlamaCppCausal:
    """A model in a GGUF file, shared by all lanes of a process and never changed after `open`."""

    network: Network
    header: GgufNetwork
    max_positions: int
    threads: int
    is_running: ClassVar[bool] = True  # no process of its own can end

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, context: int = 0, vocab_only: bool = False) -> Self:
        """Open the GGUF file in `folder`; raise ModelError now, not at the first document.

        `context`: the most positions that a sequence may have; 0: as many as the model was trained for. `vocab_only`:
        leave the weights out, to ask only for properties of the model.
        """
        file = folder / GGUF_MODEL
        header = GgufNetwork.of(GgufFile.open(file))  # llama.cpp ends the process on some damaged files
        positions = header.max_positions
        if header.short_positions is not None:
            # A context beyond them has other rotary factors for all its texts, short ones too.
            positions = min(positions, max(_PAD, header.short_positions // _PAD * _PAD))
        return cls(
            Network.open(file, vocab_only=vocab_only), header, min(positions, context or positions), max(1, threads)
        )

    @property
    def vocab_size(self) -> int:
        """V: how many ids the model gives logits for."""
        return self.network.vocab_size

    def computes_in_float32(self) -> bool:
        """Whether every weight is float32; keys and values are, and products of a quantized weight are not."""
        return self.header.is_float32

    @property
    def departures(self) -> Departures:
        """Always None: the file is its own configuration."""
        return Departures()

    @property
    def continuation_rules(self) -> ContinuationRules:
        """Rules with the ids that end a text; a GGUF file sets no others."""
        vocabulary = self.network.vocabulary
        is_end = llama_cpp().llama_vocab_is_eog
        end_ids = (token_id for token_id in range(self.vocab_size) if is_end(vocabulary, token_id))
        return ContinuationRules(eos_ids=tuple(end_ids))

    def new_generator(self, policy: CachePolicy = CachePolicy()) -> ContinuousGenerator:  # noqa: B008 - frozen
        """One lane's generator. Raises SpecError where the cache is to be off: llama.cpp always has one."""
        if policy.mode == "off":
            raise SpecError(
                "llama.cpp always keeps keys and values: leave out --cache off, or add the model without it"
            )
        return ContinuousGenerator(self._new_rows, self.max_positions)

    def new_reader(self, *, is_packed: bool = True) -> LlamaCppReader:
        """One lane's reader. A model with recurrent layers is read one sequence after another in any case."""
        return self._reader(is_packed=is_packed)

    def new_whole_reader(self) -> LlamaCppReader:
        """One lane's reader that gives llama.cpp each sequence alone, in one call."""
        return self._reader(is_packed=False, is_whole=True)

    def _new_rows(self) -> LlamaCppRows:
        return LlamaCppRows(
            self.network,
            threads=self.threads,
            limits=self._limits(is_packed=True),
            bytes_per_cell=self.header.cache_bytes or 0,
        )

    def _limits(self, *, is_packed: bool) -> ContextLimits:
        cells = self.max_positions if self.header.short_positions is not None else None
        return ContextLimits.of(self.network, is_packed=is_packed, cells=cells)

    def _reader(self, *, is_packed: bool, is_whole: bool = False) -> LlamaCppReader:
        return LlamaCppReader(
            self.network,
            threads=self.threads,
            limits=self._limits(is_packed=is_packed),
            bytes_per_cell=self.header.cache_bytes or 0,
            is_whole=is_whole,
        )

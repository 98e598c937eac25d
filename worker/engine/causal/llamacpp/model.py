"""
A causal language model in a GGUF file, and the reader that a lane gets.

Knows: the file of a model folder. Does not know: which sequences are read together.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from worker.engine.causal.llamacpp.network import Network
from worker.engine.causal.llamacpp.reader import Limits, LlamaCppReader
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.checkpoint.gguf_network import GgufNetwork
from worker.models.departures.departures import Departures
from worker.models.file_names import GGUF_MODEL

_PAD = 256  # tokens: llama.cpp rounds the size of a context up to a multiple


@dataclass(frozen=True, slots=True)
class LlamaCppCausal:
    """Shared by all lanes of a process; nothing here changes after `open`."""

    network: Network
    header: GgufNetwork
    max_positions: int
    threads: int

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, context: int = 0, vocab_only: bool = False) -> Self:
        """Open the GGUF file in `folder`; raise ModelError now, not at the first document.

        `context`: at most so many positions; 0: those of the model. `vocab_only`: without the weights, to ask what the
        model could do.
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
        """V of the logits."""
        return self.network.vocab_size

    def computes_in_float32(self) -> bool:
        """Whether every weight is float32; keys and values are, and products of a quantized weight are not."""
        return self.header.is_float32

    @property
    def departures(self) -> Departures:
        """None: the file is its own configuration."""
        return Departures()

    def new_reader(self, *, is_packed: bool = True) -> LlamaCppReader:
        """One lane's reader. A model with recurrent layers is read one sequence after another in any case."""
        return self._reader(is_packed=is_packed)

    def new_whole_reader(self) -> LlamaCppReader:
        """One lane's reader that gives llama.cpp each sequence alone, in one call."""
        return self._reader(is_packed=False, is_whole=True)

    def _reader(self, *, is_packed: bool, is_whole: bool = False) -> LlamaCppReader:
        cells = self.max_positions if self.header.short_positions is not None else None
        limits = Limits.of(self.network, is_packed=is_packed, cells=cells)
        return LlamaCppReader(
            self.network,
            threads=self.threads,
            limits=limits,
            bytes_per_cell=self.header.cache_bytes or 0,
            is_whole=is_whole,
        )

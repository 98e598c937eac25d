"""Translation and generation engines as `bench.families` sees them: token ids in, as many tokens as asked for out.

Knows: the modules of `bench.peers` for each kind of model. Does not know: families, ratios.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bench.harness import generate_engine
from bench.harness.engine import Engine, Run, Search
from bench.harness.generate_engine import GenerateEngine

Ids = list[int]
OURS, CTRANSLATE2, TRANSFORMERS = "kvjobs", "ctranslate2", "transformers-fp32"
_TRANSLATING = {OURS: "ours", CTRANSLATE2: "peer_ctranslate2_family", TRANSFORMERS: "peer_transformers"}
_GENERATING = {OURS: "generate_ours", CTRANSLATE2: "generate_ctranslate2", TRANSFORMERS: "generate_transformers"}


@dataclass(frozen=True, slots=True)
class Work:
    """What all engines do with the model of a family."""

    checkpoint: Path
    folder: Path  # where engines keep what they convert the checkpoint to
    is_seq2seq: bool
    beams: int
    sources: list[Ids]  # or prompts
    new_tokens: int  # of each


class FamilyEngine(Protocol):
    """An engine with a model, in a process of its own."""

    def tune(self, sources: Sequence[Ids], new_tokens: int) -> None:
        """Let it find its best settings."""

    def run(self, sources: Sequence[Ids], new_tokens: int) -> Run | generate_engine.Run:
        """Give each source so many tokens."""

    def configuration(self) -> str:
        """Its settings in words."""

    def peak_memory(self) -> int:
        """The most bytes that its process had resident."""


@contextmanager
def opened(
    name: str, precision: str, work: Work, environment: Mapping[str, str] | None = None
) -> Iterator[FamilyEngine]:
    """The engine of that name, until the block ends. Raises EngineError."""
    if work.is_seq2seq:
        with Engine(_TRANSLATING[name], precision, work.checkpoint, work.folder, environment) as translator:
            yield _Translating(translator, work.beams)
    else:
        with GenerateEngine(_GENERATING[name], precision, work.checkpoint, work.folder, environment) as generator:
            yield _Generating(generator)


@dataclass(frozen=True, slots=True)
class _Translating:
    engine: Engine
    beams: int

    def tune(self, sources: Sequence[Ids], new_tokens: int) -> None:
        self.engine.tune(sources, Search(self.beams, new_tokens))

    def run(self, sources: Sequence[Ids], new_tokens: int) -> Run:
        return self.engine.run(sources, Search(self.beams, new_tokens))

    def configuration(self) -> str:
        return self.engine.configuration(Search(self.beams, None))

    def peak_memory(self) -> int:
        return self.engine.peak_memory()


@dataclass(frozen=True, slots=True)
class _Generating:
    engine: GenerateEngine

    def tune(self, sources: Sequence[Ids], new_tokens: int) -> None:
        self.engine.tune(sources, new_tokens)

    def run(self, sources: Sequence[Ids], new_tokens: int) -> generate_engine.Run:
        return self.engine.generate(sources, new_tokens)

    def configuration(self) -> str:
        return self.engine.configuration()

    def peak_memory(self) -> int:
        return self.engine.peak_memory()

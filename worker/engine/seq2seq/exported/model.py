"""
A translation model with exported graphs: its own rules of search, and the decoder and scorer that a lane gets.

Knows: the files of a model folder. Does not know: layouts of graphs, how a decoder works.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from jobs.tasks.shared_options import CachePolicy
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.engine.search.generation_config import GenerationConfig, read_generation
from worker.engine.seq2seq.exported.decoder import ExportedDecoder
from worker.engine.seq2seq.exported.graphs import ExportedSeq2SeqGraphs
from worker.engine.seq2seq.exported.scorer import ExportedScorer
from worker.models.json_file import read_json
from worker.models.layout.seq2seq_config import Seq2SeqConfig
from worker.models.manifest import read_stand_ins
from worker.text.marks.known_words import NO_STAND_INS, StandIns

_UNNAMED_LIMIT = 512  # positions, where config.json names no limit


@dataclass(frozen=True, slots=True)
class ExportedSeq2Seq:
    """A translation model with exported graphs, shared by all lanes of a process and never changed after `open`."""

    graphs: ExportedSeq2SeqGraphs
    generation: GenerationConfig
    max_positions: int  # of source and of target
    pad_id: int
    stand_ins: StandIns = NO_STAND_INS
    is_running: ClassVar[bool] = True  # no process of its own can end
    is_batch_invariant: ClassVar[bool] = False  # a batch is padded to its longest segment

    @classmethod
    def open(cls, folder: Path, *, threads: int = 1, providers: Sequence[Provider] = (CPU_PROVIDER,)) -> Self:
        """Open everything that `folder` holds; raise ModelError now, not at the first document."""
        config = read_json(folder / "config.json")
        settings = folder / "generation_config.json"
        generation = read_json(settings) if settings.is_file() else None
        graphs = ExportedSeq2SeqGraphs.open(folder, config, threads=threads, providers=providers)
        max_positions = Seq2SeqConfig.of(config).max_positions or _UNNAMED_LIMIT
        rules = read_generation(config, generation, vocab_size=graphs.layout.vocab_size, max_positions=max_positions)
        pad_id = (generation or {}).get("pad_token_id", config.get("pad_token_id"))
        return cls(graphs, rules, max_positions, rules.eos_id if pad_id is None else pad_id, read_stand_ins(folder))

    @property
    def has_cache(self) -> bool:
        return self.graphs.has_cache

    def check_cache(self, policy: CachePolicy) -> None:
        self.graphs.check_cache(policy)

    def new_decoder(self, policy: CachePolicy = CachePolicy()) -> ExportedDecoder:  # noqa: B008 - frozen
        self.check_cache(policy)
        return ExportedDecoder(self.graphs, policy, self.pad_id)

    def new_scorer(self) -> ExportedScorer:
        return ExportedScorer(self.graphs, self.generation.start_id, self.pad_id)

    def new_attention_reader(self) -> None:
        """None: the graphs have no outputs of attention."""

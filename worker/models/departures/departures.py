"""
Where a causal graph computes something else than its configuration asks for.

Exporters drop settings without a word: a soft cap that a fused attention has no input for, rotary factors for long
texts, a clip. What the configuration asks for is looked for in the graph's nodes and constants:

    a limit          the graph is right up to so many tokens, and no text of more is given to it
    a contradiction  the graph shows something else: the model is refused, unless a person accepts it by name
    a suspicion      nothing definite can be said: it is told, and nothing is refused

Knows: what the settings of transformers 4.57 mean, and how exporters write them. Does not know: how a graph is run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from jobs.errors import ModelError
from worker.models.departures.attention_evidence import (
    alibi_departures,
    clip_departures,
    layer_scale_departures,
    score_scale_departures,
    soft_caps,
)
from worker.models.departures.evidence import Contradiction, Departure, Limit, Suspicion
from worker.models.departures.graph_content import GraphContent
from worker.models.departures.norm_evidence import norm_departures
from worker.models.departures.rotary_evidence import rotary_departures
from worker.models.departures.window_evidence import window_departures
from worker.models.export_advice import ADD
from worker.models.layout.causal_config import CausalConfig
from worker.models.layout.causal_layout import find_causal_graph

_LOOKS: Sequence[Callable[[GraphContent, CausalConfig], Iterator[Departure]]] = (
    rotary_departures,
    window_departures,
    alibi_departures,
    soft_caps,
    clip_departures,
    layer_scale_departures,
    score_scale_departures,
    norm_departures,
)


@dataclass(frozen=True, slots=True)
class Departures:
    """All that was found of one graph."""

    limit: Limit | None = None  # the shortest
    contradictions: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Sequence[Departure]) -> Self:
        limits = sorted((one for one in found if isinstance(one, Limit)), key=lambda limit: limit.positions)
        return cls(
            limits[0] if limits else None,
            tuple(one.text for one in found if isinstance(one, Contradiction)),
            tuple(one.text for one in found if isinstance(one, Suspicion)),
        )

    def refuse(self, file: Path, config: CausalConfig) -> None:
        """Raise ModelError that names what the graph contradicts."""
        if self.contradictions:
            folder = Path(config.file).parent
            raise ModelError(
                f"{file} is not the model that {config.file} describes ({'; '.join(self.contradictions)}): export it "
                f"with another exporter, or take it as it is with `{ADD} {folder} --accept-departures`"
            )

    def warnings(self) -> list[str]:
        """What a person should know of a model that runs, a sentence each."""
        reads = f"reads at most {self.limit.positions:,} tokens at once: {self.limit.text}" if self.limit else None
        others = (f"may not say what its checkpoint says: {one}" for one in (*self.contradictions, *self.suspicions))
        return [*([reads] if reads else []), *others]


def departures_in(folder: Path) -> Departures:
    """Of an exported model's folder; raises ModelError where it holds none."""
    return find_departures(find_causal_graph(folder), CausalConfig.read(folder))


def find_departures(file: Path, config: CausalConfig) -> Departures:
    """Compare the graph in `file` with its configuration; raise ModelError for a file that is no graph."""
    content = GraphContent.read(file)
    return Departures.of([one for look in _LOOKS for one in look(content, config)])

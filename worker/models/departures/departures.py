"""
Where a causal graph computes something else than its configuration asks for.

Exporters drop settings silently: a soft cap that a fused attention has no input for, rotary factors for long texts, a
clip. Each setting of the configuration is looked for in the nodes and constants of the graph. A departure is

    a limit          the graph is right up to a number of tokens, and is given no longer text
    a contradiction  the graph shows another value: the model is refused, unless it was added with --accept-departures
    a suspicion      the graph does not show the setting, and may have it in an unknown form: a warning

Knows: what the settings mean in transformers 4.57, and how exporters write them. Does not know: how a graph is run.
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

_CHECKS: Sequence[Callable[[GraphContent, CausalConfig], Iterator[Departure]]] = (
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
    """All departures of one graph."""

    limit: Limit | None = None  # the shortest
    contradictions: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Sequence[Departure]) -> Self:
        limits = sorted(
            (departure for departure in found if isinstance(departure, Limit)), key=lambda limit: limit.positions
        )
        return cls(
            limits[0] if limits else None,
            tuple(departure.text for departure in found if isinstance(departure, Contradiction)),
            tuple(departure.text for departure in found if isinstance(departure, Suspicion)),
        )

    def refuse(self, file: Path, config: CausalConfig) -> None:
        """Raise ModelError that names the settings that the graph contradicts."""
        if self.contradictions:
            folder = Path(config.file).parent
            raise ModelError(
                f"{file} is not the model that {config.file} describes ({'; '.join(self.contradictions)}): export it "
                f"with another exporter, or add it as it is with `{ADD} {folder} --accept-departures`"
            )

    def warnings(self) -> list[str]:
        """Warnings about a model that runs, one sentence each, without the subject."""
        reads = f"reads at most {self.limit.positions:,} tokens at once: {self.limit.text}" if self.limit else None
        others = (f"may not say what its checkpoint says: {text}" for text in (*self.contradictions, *self.suspicions))
        return [*([reads] if reads else []), *others]


def departures_in(folder: Path) -> Departures:
    """The departures of the exported model in `folder`; raises ModelError where there is none."""
    return find_departures(find_causal_graph(folder), CausalConfig.read(folder))


def find_departures(file: Path, config: CausalConfig) -> Departures:
    """Compare the graph in `file` with its configuration; raise ModelError for a file that is not a graph."""
    content = GraphContent.read(file)
    return Departures.of([departure for check in _CHECKS for departure in check(content, config)])

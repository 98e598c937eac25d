"""What is measured: each work is a model, a precision and a search, and the peers that do the same.

Knows: names. Does not know: how an engine works.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

SOURCE_TOKENS = TARGET_TOKENS = 32  # of each segment of the forced workload, the end of the source included
OPUS, DEMO = "opus-shaped", "demo"


@dataclass(frozen=True, slots=True)
class Work:
    """One workload of the comparison, and its peers."""

    name: str
    model: str
    precision: str  # ours; a peer that has the choice runs at the same
    beams: int
    peers: tuple[str, ...]
    more_peers: tuple[str, ...] = ()  # with --full


@dataclass(frozen=True, slots=True)
class Peer:
    """Another engine."""

    module: str  # of bench.peers
    precision: str | None = None  # None: that of the work
    share: int = 1  # runs 1 / share of the segments: the rates of slow engines are steady after a batch or two


PEERS = {
    "ctranslate2": Peer("peer_ctranslate2"),
    "transformers-fp32": Peer("peer_transformers", "fp32", 4),
    "transformers-bf16": Peer("peer_transformers", "bf16", 4),
    "optimum": Peer("peer_optimum", "fp32", 4),
    "optimum-no-cache": Peer("peer_optimum", "fp32-no-cache", 16),
}

_TORCH = ("transformers-fp32", "transformers-bf16", "optimum")

WORKS = (
    Work("int8-greedy", OPUS, "int8", 1, ("ctranslate2", *_TORCH)),
    Work("fp32-greedy", OPUS, "fp32", 1, ("ctranslate2", *_TORCH, "optimum-no-cache")),
    Work("int8-beam4", OPUS, "int8", 4, ("ctranslate2",), _TORCH),
    Work("fp32-beam4", OPUS, "fp32", 4, ("ctranslate2",), _TORCH),
    Work("demo-int8-greedy", DEMO, "int8", 1, ("ctranslate2",), _TORCH),
    Work("demo-fp32-greedy", DEMO, "fp32", 1, ("ctranslate2", "transformers-fp32", "optimum")),
    Work("demo-int8-beam4", DEMO, "int8", 4, ("ctranslate2",), _TORCH),
    Work("demo-fp32-beam4", DEMO, "fp32", 4, ("ctranslate2",), _TORCH),
)


def choose(only: Collection[str], full: bool) -> Iterator[Work]:
    """The works and peers that `only` names, each work with its peers; an empty `only` names all."""
    works = {work.name for work in WORKS if work.name in only} or {work.name for work in WORKS}
    peers = {peer for peer in PEERS if peer in only} or set(PEERS)
    for work in WORKS:
        wanted = tuple(peer for peer in (*work.peers, *(work.more_peers if full else ())) if peer in peers)
        if work.name in works and wanted:
            yield Work(work.name, work.model, work.precision, work.beams, wanted)


def unknown(only: Collection[str]) -> list[str]:
    """The names in `only` that are neither a work nor a peer."""
    return sorted(set(only) - {work.name for work in WORKS} - set(PEERS))

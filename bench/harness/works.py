"""What is measured: each work is a model, a precision and a search, and the peers that do the same.

Knows: names. Does not know: how an engine works.
"""

from collections.abc import Collection
from dataclasses import dataclass

SOURCE_TOKENS = TARGET_TOKENS = 32  # of each segment of the forced workload, the end of the source included
OPUS, TINY, BIG, MIXED, DEMO = "opus-shaped", "tiny", "big", "mixed", "demo"


@dataclass(frozen=True, slots=True)
class Work:
    """One workload of the comparison, and its peers."""

    name: str
    model: str
    precision: str  # ours; a peer that has the choice runs at the same
    beams: int
    peers: tuple[str, ...]
    more_peers: tuple[str, ...] = ()  # with --full
    alone: int = 0  # segments of a call, which is timed alone; 0: all segments at once


@dataclass(frozen=True, slots=True)
class Peer:
    """Another engine."""

    module: str  # of bench.peers
    precision: str | None = None  # None: that of the work
    processes: bool = False  # one a core, each with a share of the segments
    share: int = 1  # runs 1 / share of the segments: the rates of slow engines are steady after a batch or two


PEERS = {
    "ctranslate2": Peer("peer_ctranslate2"),
    "transformers-fp32": Peer("peer_transformers", "fp32", share=4),
    "transformers-bf16": Peer("peer_transformers", "bf16", share=4),
    "optimum": Peer("peer_optimum", "fp32", share=4),
    "optimum-no-cache": Peer("peer_optimum", "fp32-no-cache", share=16),
    "one-lane-workers": Peer("ours_one_lane", processes=True),
}

_TORCH = ("transformers-fp32", "transformers-bf16", "optimum")

_DEFAULT_WORKS = (
    Work("int8-greedy", OPUS, "int8", 1, ("ctranslate2", *_TORCH)),
    Work("fp32-greedy", OPUS, "fp32", 1, ("ctranslate2", *_TORCH, "optimum-no-cache")),
    Work("int8-beam4", OPUS, "int8", 4, ("ctranslate2",), _TORCH),
    Work("fp32-beam4", OPUS, "fp32", 4, ("ctranslate2",), _TORCH),
    Work("demo-int8-greedy", DEMO, "int8", 1, ("ctranslate2",), _TORCH),
    Work("demo-fp32-greedy", DEMO, "fp32", 1, ("ctranslate2", "transformers-fp32", "optimum")),
    Work("demo-int8-beam4", DEMO, "int8", 4, ("ctranslate2",), _TORCH),
    Work("demo-fp32-beam4", DEMO, "fp32", 4, ("ctranslate2",), _TORCH),
)

_SIZES = tuple(
    Work(f"{model}-{precision}-{search}", model, precision, beams, ("ctranslate2",), _TORCH)
    for model in (TINY, BIG)
    for search, beams in (("greedy", 1), ("beam4", 4))
    for precision in ("int8", "fp32")
)

_MIXED = tuple(
    Work(f"mixed-{precision}-greedy", MIXED, precision, 1, ("ctranslate2",), _TORCH) for precision in ("int8", "fp32")
)

_LATENCY = tuple(
    Work(f"latency-{alone}-{precision}-{search}", OPUS, precision, beams, ("ctranslate2",), alone=alone)
    for search, beams in (("greedy", 1), ("beam4", 4))
    for alone in (1, 4, 16)
    for precision in ("int8", "fp32")
)

_WORKERS = tuple(Work(f"workers-{model}", model, "int8", 1, ("one-lane-workers",)) for model in (DEMO, TINY, OPUS))

WORKS = (*_DEFAULT_WORKS, *_SIZES, *_MIXED, *_LATENCY, *_WORKERS)


def offered(only: Collection[str], *, everything: bool) -> tuple[Work, ...]:
    """The works that a run chooses from: all if `only` names one or `everything` is wanted, else those of the default
    run, which takes ten minutes."""
    if everything or any(work.name in only for work in WORKS):
        return WORKS
    return _DEFAULT_WORKS

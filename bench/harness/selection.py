"""Works and peers chosen by their names on a bench's command line.

Knows: names. Does not know: what a work measures.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar


class Comparison(Protocol):
    """A work, a dataclass: something to measure, and the peers that do the same."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...
    @property
    def peers(self) -> tuple[str, ...]: ...
    @property
    def more_peers(self) -> tuple[str, ...]:
        """Further peers, with --full."""


Work = TypeVar("Work", bound=Comparison)


def choose(works: Sequence[Work], peers: Collection[str], only: Collection[str], full: bool) -> Iterator[Work]:
    """The works and peers that `only` names, each work with its peers; an `only` without works (peers) means all."""
    chosen_works = {work.name for work in works if work.name in only} or {work.name for work in works}
    chosen_peers = {peer for peer in peers if peer in only} or set(peers)
    for work in works:
        wanted = tuple(peer for peer in (*work.peers, *(work.more_peers if full else ())) if peer in chosen_peers)
        if work.name in chosen_works and wanted:
            yield replace(work, peers=wanted)


def unknown(works: Sequence[Comparison], peers: Collection[str], only: Collection[str]) -> list[str]:
    """The names in `only` that are neither a work nor a peer."""
    return sorted(set(only) - {work.name for work in works} - set(peers))

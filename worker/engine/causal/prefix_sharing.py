"""
Which sequences to compute together: those that begin alike share what they begin with.

    pairs (given | scored)             groups
    a b c d | x                        a b c d | x, y       four tokens computed once
    a b c d | y
    a b e   | z                        a b e   | z          alone: to share `a b` is not worth a call
    a b e   | z                                             the same pair again: not computed at all

The sequences are a tree: each is a way from the root, and the n ways through a node share its d first tokens. A group
is a node with all that is below it, and saves (n - 1) x d tokens. Whether a node makes one group (a long template
before documents that come once) or its children make theirs (a query with its hundred candidates, a document under
many queries) is decided by which saves more, from the leaves up. Only what is given is shared, for every scored token
needs its log-probability.

Knows: ids. Does not know: models, text, queries.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile

from worker.engine.causal.protocol import Group

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]  # what is given, what is scored; neither is empty

# What a group costs, in tokens: it has model calls of its own, for the prefix and for the suffixes behind it, that
# would have been places in packed rows that are computed anyway. Measured with sgemm on one thread (896 x 9,728, the
# weights out of memory): M rows take the time that M + 21 take in a row of 512, for every M from 4 to 128. Two calls,
# and as much again for all that is not a product.
GROUP_COST = 64
# What a token behind a shared prefix costs more than one in a sequence of its own: it stands in one row with those of
# the other suffixes, which attention computes and hides. Measured over one thread in rows of 256 as the share of the
# time that a token takes: 1/4 where the width is 192, next to nothing where it is 896. So a prefix of 10 before
# suffixes of 100 is not worth it, and one of 20 is.
SUFFIX_COST = 1 / 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pair is among the groups."""

    group: int
    suffix: int
    num_scored: int  # tokens at the end of the group's suffix; those before them are given
    num_computed: int  # tokens computed for the sake of this pair
    num_shared: int  # tokens of it that are computed for another


@dataclass(frozen=True, slots=True)
class PrefixSharing:
    """All pairs, in groups."""

    groups: list[Group]
    places: list[Place]  # one a pair


def share(pairs: Sequence[Pair], group_cost: float = GROUP_COST, suffix_cost: float = SUFFIX_COST) -> PrefixSharing:
    """Equal pairs once; groups of those that begin alike, wherever a group saves more tokens than it costs, which is
    `group_cost` and for each token behind its prefix `suffix_cost`.

    What a group's first pair begins with is counted as computed for it. The groups, and the pairs in a group, are in
    the order in which they are first met.
    """
    first: dict[Pair, int] = {}
    for at, pair in enumerate(pairs):
        first.setdefault(pair, at)
    groups: list[Group] = []
    places: dict[Pair, Place] = {}
    divided = _divide(first, group_cost, suffix_cost)
    by_age = [(length, sorted(members, key=first.__getitem__)) for length, members in divided]
    for length, members in sorted(by_age, key=lambda group: first[group[1][0]]):
        suffixes = [given[length:] + scored for given, scored in members]
        for at, pair in enumerate(members):
            shared = length if at else 0
            places[pair] = Place(len(groups), at, len(pair[1]), len(pair[0]) + len(pair[1]) - shared, shared)
        groups.append(Group(members[0][0][:length], suffixes))
    return PrefixSharing(
        groups, [places[pair] if first[pair] == at else _again(places[pair]) for at, pair in enumerate(pairs)]
    )


def apart(pairs: Sequence[Pair]) -> PrefixSharing:
    """Every pair on its own, equal ones too: the slow twin of `share`."""
    return PrefixSharing(
        [Group(given, [scored]) for given, scored in pairs],
        [Place(at, 0, len(scored), len(given) + len(scored), 0) for at, (given, scored) in enumerate(pairs)],
    )


def _again(place: Place) -> Place:
    """The same pair, met again."""
    return Place(place.group, place.suffix, place.num_scored, 0, place.num_computed + place.num_shared)


@dataclass(slots=True)
class _Node:
    """The pairs from `start` on, in sorted order, that share their first `depth` tokens."""

    depth: int
    start: int
    saved: float = 0.0  # by the groups below, less what they cost
    groups: list[tuple[int, int, int]] = field(default_factory=list)  # start, stop, tokens shared

    def close(self, stop: int, num_tokens: int, group_cost: float, suffix_cost: float) -> None:
        """All pairs of the node are known, and their tokens: one group, where that saves more than those below."""
        num_pairs = stop - self.start
        num_behind = num_tokens - num_pairs * self.depth
        saved = (num_pairs - 1) * self.depth - group_cost - suffix_cost * num_behind
        if saved > self.saved:
            self.saved, self.groups = saved, [(self.start, stop, self.depth)]

    def absorb(self, child: "_Node") -> None:
        self.saved += child.saved
        self.groups = self.groups + child.groups if self.groups and child.groups else self.groups or child.groups


def _divide(pairs: Iterable[Pair], group_cost: float, suffix_cost: float) -> list[tuple[int, list[Pair]]]:
    """Each pair in one group; with each group the number of tokens at its start that are shared."""
    in_order = sorted(pairs)  # so what begins alike stands together, and `way` is the way from the root to the last
    num_tokens = [0, *accumulate(len(given) + len(scored) for given, scored in in_order)]
    way = [_Node(0, 0)]

    def go_up(depth: int, stop: int) -> None:
        """Close the nodes that are deeper; the last of the way is then at this depth."""
        while way[-1].depth > depth:
            node = way.pop()
            node.close(stop, num_tokens[stop] - num_tokens[node.start], group_cost, suffix_cost)
            if way[-1].depth < depth:
                way.append(_Node(depth, node.start))
            way[-1].absorb(node)

    for at, (given, _) in enumerate(in_order):
        shared = _num_alike(in_order[at - 1][0], given) if at else 0
        go_up(shared, at)
        if len(given) > shared:
            way.append(_Node(len(given), at))
    go_up(0, len(in_order))

    divided, alone_from = [], 0
    for start, stop, length in [*way[0].groups, (len(in_order), len(in_order), 0)]:
        divided += [(len(pair[0]), [pair]) for pair in in_order[alone_from:start]]
        if stop > start:
            divided.append((length, in_order[start:stop]))
        alone_from = stop
    return divided


def _num_alike(one: Ids, other: Ids) -> int:
    """Tokens with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))

"""
Which sequences to read together, so that a common prefix is computed once.

    pairs (given | scored)             groups
    a b c d | x                        a b c d | x, y       four tokens computed once
    a b c d | y
    a b e   | z                        a b e   | z          alone: to share `a b` is not worth a call
    a b e   | z                                             the same pair again: not computed at all

The sequences form a tree: each is a path from the root, and the n paths through a node share its first d tokens. A
group is a node with all the paths below it, and saves (n - 1) x d tokens. Whether a node makes one group (a long
template before documents that come once) or its children make their own (a query with its hundred candidates, a
document of many queries) is decided by which saves more, from the leaves up. Only given tokens are shared, because
every scored token needs its log-probability.

Knows: ids. Does not know: models, text, queries.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile

from worker.engine.causal.protocol import Group

TokenIds = tuple[int, ...]
Pair = tuple[TokenIds, TokenIds]  # given and scored tokens; neither is empty

# The cost of a group, in tokens: it has its own model calls, for the prefix and for the suffixes after it, whose tokens
# would otherwise fill up packed rows that are computed anyway. Measured with sgemm on one thread (896 x 9,728, the
# weights out of memory): M rows take the time that M + 21 take in a row of 512, for every M from 4 to 128. Two calls,
# and as much again for all that is not a product.
GROUP_COST = 64
# The extra cost of a token after a shared prefix: the other suffixes are in the same row, and attention computes the
# scores of their tokens only to mask them. Measured on one thread in rows of 256, as a share of the time per token: 1/4
# at a width of 192, next to nothing at 896. So a prefix of 10 before suffixes of 100 is not worth sharing, and one of
# 20 is.
SUFFIX_COST = 1 / 8


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A pair as a suffix of a group."""

    group: int
    suffix: int
    num_scored: int  # tokens at the end of the suffix; the tokens before are given, and have no log-probability
    num_computed: int  # tokens computed for this pair
    num_shared: int  # its tokens that are computed for another pair


@dataclass(frozen=True, slots=True)
class PrefixGroups:
    """Pairs in groups."""

    groups: list[Group]
    members: list[GroupMember]  # one per pair, in the order of the pairs


def group_by_prefix(
    pairs: Sequence[Pair], group_cost: float = GROUP_COST, suffix_cost: float = SUFFIX_COST
) -> PrefixGroups:
    """Put equal pairs together, and pairs with a common prefix into a group if it saves more tokens than it costs:
    `group_cost`, and `suffix_cost` for each token after its prefix.

    The prefix of a group counts as computed for its first pair. Groups, and the pairs in a group, are in the order of
    the first occurrence.
    """
    first: dict[Pair, int] = {}
    for index, pair in enumerate(pairs):
        first.setdefault(pair, index)
    groups: list[Group] = []
    members: dict[Pair, GroupMember] = {}
    divided = _divide(first, group_cost, suffix_cost)
    in_order = [(length, sorted(together, key=first.__getitem__)) for length, together in divided]
    for length, together in sorted(in_order, key=lambda group: first[group[1][0]]):
        suffixes = [given[length:] + scored for given, scored in together]
        for index, pair in enumerate(together):
            shared = length if index else 0
            members[pair] = GroupMember(len(groups), index, len(pair[1]), len(pair[0]) + len(pair[1]) - shared, shared)
        groups.append(Group(together[0][0][:length], suffixes, [len(given) - length for given, _ in together]))
    return PrefixGroups(
        groups,
        [members[pair] if first[pair] == index else _repeated(members[pair]) for index, pair in enumerate(pairs)],
    )


def group_separately(pairs: Sequence[Pair]) -> PrefixGroups:
    """A group for every pair, also for equal ones: the slow reference of `group_by_prefix`."""
    return PrefixGroups(
        [Group(given, [scored]) for given, scored in pairs],
        [
            GroupMember(index, 0, len(scored), len(given) + len(scored), 0)
            for index, (given, scored) in enumerate(pairs)
        ],
    )


def _repeated(member: GroupMember) -> GroupMember:
    """The member for a later occurrence of the same pair, which computes nothing."""
    return GroupMember(member.group, member.suffix, member.num_scored, 0, member.num_computed + member.num_shared)


@dataclass(slots=True)
class _Node:
    """The pairs from `start` on, in sorted order, that share their first `depth` tokens."""

    depth: int
    start: int
    saved: float = 0.0  # tokens, by the groups at or below the node, minus their cost
    groups: list[tuple[int, int, int]] = field(default_factory=list)  # start, stop, tokens shared

    def close(self, stop: int, num_tokens: int, group_cost: float, suffix_cost: float) -> None:
        """Called when the last pair of the node is known: make the node one group if that saves more than the groups
        below it."""
        num_pairs = stop - self.start
        num_in_suffixes = num_tokens - num_pairs * self.depth
        saved = (num_pairs - 1) * self.depth - group_cost - suffix_cost * num_in_suffixes
        if saved > self.saved:
            self.saved, self.groups = saved, [(self.start, stop, self.depth)]

    def absorb(self, child: "_Node") -> None:
        self.saved += child.saved
        self.groups = self.groups + child.groups if self.groups and child.groups else self.groups or child.groups


def _divide(pairs: Iterable[Pair], group_cost: float, suffix_cost: float) -> list[tuple[int, list[Pair]]]:
    """Divide the pairs into groups; with each group comes the length of its prefix."""
    in_order = sorted(pairs)  # pairs with a common prefix are neighbours; `path` leads from the root to the last one
    num_tokens = [0, *accumulate(len(given) + len(scored) for given, scored in in_order)]
    path = [_Node(0, 0)]

    def go_up(depth: int, stop: int) -> None:
        """Close the nodes of the path that are deeper than `depth`."""
        while path[-1].depth > depth:
            node = path.pop()
            node.close(stop, num_tokens[stop] - num_tokens[node.start], group_cost, suffix_cost)
            if path[-1].depth < depth:
                path.append(_Node(depth, node.start))
            path[-1].absorb(node)

    for index, (given, _) in enumerate(in_order):
        shared = _common_length(in_order[index - 1][0], given) if index else 0
        go_up(shared, index)
        if len(given) > shared:
            path.append(_Node(len(given), index))
    go_up(0, len(in_order))

    divided, alone_from = [], 0
    for start, stop, length in [*path[0].groups, (len(in_order), len(in_order), 0)]:
        divided += [(len(pair[0]), [pair]) for pair in in_order[alone_from:start]]
        if stop > start:
            divided.append((length, in_order[start:stop]))
        alone_from = stop
    return divided


def _common_length(first: TokenIds, second: TokenIds) -> int:
    """The length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))

"""Groups of sequences with a common prefix: each sequence is kept unchanged, and the groups save the most tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.engine.causal.prefix_sharing import GROUP_COST, Pair, PrefixGroups, group_by_prefix, group_separately

# A small vocabulary, so that many pairs share a prefix; the parts of a pair are never empty.
IDS = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)
SUFFIX_COSTS = st.sampled_from([0.0, 0.125, 0.5])
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=14)


def num_tokens(sharing: PrefixGroups) -> int:
    return sum(len(group.prefix) + sum(map(len, group.suffixes)) for group in sharing.groups)


def restored(sharing: PrefixGroups, at: int) -> Pair:
    """The pair at this index, put together again from its group's prefix and suffix."""
    member = sharing.members[at]
    group = sharing.groups[member.group]
    whole = (*group.prefix, *group.suffixes[member.suffix])
    assert member.num_scored <= len(group.suffixes[member.suffix]), "a scored token is never in the shared prefix"
    assert member.num_scored + group.num_given(member.suffix) == len(group.suffixes[member.suffix])
    return whole[: -member.num_scored], whole[-member.num_scored :]


def pairs_of(*lines: str) -> list[Pair]:
    """Each text, such as `abcd x`, as a pair (given tokens, scored tokens); a letter is a token."""
    return [tuple(tuple(map(ord, part)) for part in line.split()) for line in lines]  # type: ignore[misc]


def groups_of(sharing: PrefixGroups) -> list[str]:
    """Each group as a text: `abc x y` is the prefix `abc` with the suffixes `x` and `y`."""
    return [" ".join("".join(map(chr, ids)) for ids in (group.prefix, *group.suffixes)) for group in sharing.groups]


@given(PAIRS, st.integers(0, 12), SUFFIX_COSTS)
def test_every_pair_is_kept_unchanged_and_computed_once(pairs: list[Pair], group_cost: int, suffix_cost: float) -> None:
    sharing = group_by_prefix(pairs, group_cost, suffix_cost)

    assert [restored(sharing, at) for at in range(len(pairs))] == pairs
    where = [(member.group, member.suffix) for member in sharing.members]
    assert len(set(where)) == len(set(pairs)) == sum(len(group.suffixes) for group in sharing.groups)


@given(PAIRS, st.integers(0, 12), SUFFIX_COSTS)
def test_sharing_never_computes_more_tokens_than_separate_pairs(
    pairs: list[Pair], group_cost: int, suffix_cost: float
) -> None:
    sharing = group_by_prefix(pairs, group_cost, suffix_cost)
    num_groups = sum(len(group.suffixes) > 1 for group in sharing.groups)
    different = list(dict.fromkeys(pairs))

    assert num_tokens(sharing) + group_cost * num_groups <= num_tokens(group_separately(different))
    assert sum(member.num_computed for member in sharing.members) == num_tokens(sharing)
    for member, (context, scored) in zip(sharing.members, pairs, strict=True):
        assert member.num_computed + member.num_shared == len(context) + len(scored)


@given(st.lists(st.tuples(IDS, IDS), max_size=7), st.integers(0, 6), SUFFIX_COSTS)
def test_no_other_grouping_saves_more(pairs: list[Pair], group_cost: int, suffix_cost: float) -> None:
    """Compared with every possible way to cut the prefix tree into groups."""
    different = sorted(set(pairs))

    def best(among: list[Pair], depth: int) -> float:
        """The most tokens that can be saved among pairs whose first `depth` tokens are equal."""
        num_behind = sum(len(context) + len(scored) - depth for context, scored in among)
        whole = (len(among) - 1) * depth - group_cost - suffix_cost * num_behind
        longer: dict[int, list[Pair]] = {}
        for pair in among:
            if len(pair[0]) > depth:
                longer.setdefault(pair[0][depth], []).append(pair)
        return max(0, whole, sum(best(below, depth + 1) for below in longer.values()))

    sharing = group_by_prefix(pairs, group_cost, suffix_cost)
    made = [group for group in sharing.groups if len(group.suffixes) > 1]
    costs = sum(group_cost + suffix_cost * sum(map(len, group.suffixes)) for group in made)
    saved = num_tokens(group_separately(different)) - num_tokens(sharing) - costs

    assert saved == best(different, 0) if different else saved == 0


@given(PAIRS)
def test_without_sharing_every_pair_is_its_own_group(pairs: list[Pair]) -> None:
    sharing = group_separately(pairs)

    assert [restored(sharing, at) for at in range(len(pairs))] == pairs
    assert all(len(group.suffixes) == 1 for group in sharing.groups)
    assert sum(member.num_shared for member in sharing.members) == 0


def test_a_query_is_computed_once_for_all_its_candidates() -> None:
    sharing = group_by_prefix(pairs_of("abcd x", "aeee x", "abcd y", "abcd zz"), group_cost=2, suffix_cost=0)

    assert groups_of(sharing) == ["abcd x y zz", "aeee x"], "8 tokens saved; `a` alone would save 3"
    assert [(member.num_computed, member.num_shared) for member in sharing.members] == [(5, 0), (5, 0), (1, 4), (2, 4)]


def test_a_long_common_prefix_is_shared_if_only_the_rest_differs() -> None:
    assert groups_of(group_by_prefix(pairs_of("abcdx 1", "abcdy 2", "abcdz 3"), group_cost=2, suffix_cost=0)) == [
        "abcd x1 y2 z3"
    ]


def test_the_larger_saving_decides_between_sharing_the_template_and_sharing_the_documents() -> None:
    twice = pairs_of("aaaaaaxx 1", "aaaaaaxx 2", "aaaaaayy 1", "aaaaaayy 2")
    often = pairs_of(*(f"aa{document * 6} {query}" for document in "xy" for query in "12345"))

    assert groups_of(group_by_prefix(twice, group_cost=0, suffix_cost=0)) == ["aaaaaa xx1 xx2 yy1 yy2"], "18 against 16"
    assert groups_of(group_by_prefix(often, group_cost=0, suffix_cost=0)) == [
        "aaxxxxxx 1 2 3 4 5",
        "aayyyyyy 1 2 3 4 5",
    ], "64 against 18"


def test_a_few_common_tokens_are_not_worth_a_group() -> None:
    a_template = [((1, 2, 3, 10 + document), (5, 6)) for document in range(20)]  # saves 57
    a_query = [(tuple(range(100)), (5, document)) for document in range(2)]  # saves 100

    assert len(group_by_prefix(a_template).groups) == 20
    assert len(group_by_prefix(a_query).groups) == 1
    assert 57 < GROUP_COST < 100


def test_a_short_common_prefix_of_long_sequences_is_not_worth_a_group() -> None:
    def pairs(num_shared: int) -> list[Pair]:
        return [((1,) * num_shared, (2 + document,) * 100) for document in range(50)]

    assert len(group_by_prefix(pairs(10)).groups) == 50
    assert len(group_by_prefix(pairs(20)).groups) == 1


def test_equal_pairs_are_computed_once_even_if_no_group_is_made() -> None:
    sharing = group_by_prefix(pairs_of("ab x", "ab x", "c y", "ab x"))

    assert groups_of(sharing) == ["ab x", "c y"]
    assert [(member.num_computed, member.num_shared) for member in sharing.members] == [(3, 0), (0, 3), (2, 0), (0, 3)]


@pytest.mark.parametrize("order", [1, -1])
def test_many_sequences_that_extend_each_other_do_not_exceed_the_recursion_limit(order: int) -> None:
    """Their prefix tree is as deep as the number of sequences."""
    pairs = [((7,) * length, (8,)) for length in range(1, 2001)][::order]

    sharing = group_by_prefix(pairs)

    assert [restored(sharing, at) for at in range(len(pairs))] == pairs

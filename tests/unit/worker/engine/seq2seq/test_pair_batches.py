"""Batches of (source, target) pairs."""

from hypothesis import given
from hypothesis import strategies as st

from worker.engine.seq2seq.batches import IdPair, make_pair_batches


@given(lengths=st.lists(st.tuples(st.integers(1, 70), st.integers(1, 70)), max_size=40), max_tokens=st.integers(1, 200))
def test_batches_hold_every_pair_once_and_are_bounded(lengths: list[tuple[int, int]], max_tokens: int) -> None:
    pairs = [IdPair([0] * source, [0] * target) for source, target in lengths]

    batches = list(make_pair_batches(pairs, max_tokens))

    assert sorted(index for batch in batches for index in batch) == list(range(len(pairs)))
    for batch in batches:
        longest = max(max(len(pairs[index].source), len(pairs[index].target)) for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= max_tokens
        sources = [len(pairs[index].source) for index in batch]
        assert sources == sorted(sources, reverse=True)

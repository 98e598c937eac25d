"""Where a causal model is cut."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.causal_checkpoints import causal_config
from worker.graphs.causal.families import read_sizes
from worker.graphs.causal.sizes import CausalSizes
from worker.graphs.causal.stages import cut_causal, stage_costs


def sizes_of(layers: int, vocab_size: int) -> CausalSizes:
    return read_sizes(
        causal_config(
            "llama",
            width=32,
            layers=layers,
            heads=4,
            kv_heads=2,
            head_size=None,
            ffn=48,
            vocab_size=vocab_size,
            max_positions=64,
            tied=True,
            dtype="F32",
        )
    )


@given(st.data())
def test_no_other_cut_has_a_faster_slowest_stage(data: st.DataObject) -> None:
    layers = data.draw(st.integers(2, 9))
    stages = data.draw(st.integers(2, layers))
    sizes = sizes_of(layers, data.draw(st.integers(10, 5000)))

    found = cut_causal(sizes, stages)

    assert [layer for some in found for layer in some] == list(range(layers))
    assert min(map(len, found)) >= 1
    borders = ((0, *inner, layers) for inner in combinations(range(1, layers), stages - 1))
    every = [tuple(map(range, cut, cut[1:])) for cut in borders]
    assert max(stage_costs(sizes, found)) == min(max(stage_costs(sizes, cut)) for cut in every)


@pytest.mark.parametrize(("vocab_size", "last"), [(10, 4), (1_000_000, 1)])
def test_a_large_head_leaves_few_layers_for_its_stage(vocab_size: int, last: int) -> None:
    assert len(cut_causal(sizes_of(8, vocab_size), 2)[-1]) == last

"""What bench.generate measures: the works and their peers, the prompts, and how runs become rows."""

import pytest

from bench.checkpoints.causal_shapes import CAUSAL_SHAPES
from bench.generate import PEERS, WORKS, compared
from bench.harness.generate_engine import Run
from bench.harness.prompts import SHORTEST, bulletin_prompts, prompt_lengths, random_prompts
from bench.harness.selection import choose, unknown
from worker.models.registry import BUNDLED, DEFAULT_CAUSAL


def test_every_peer_of_a_work_is_known():
    assert {peer for work in WORKS for peer in (*work.peers, *work.more_peers)} == set(PEERS)
    assert unknown(WORKS, PEERS, ["int8", "llamacpp-q8_0", "vllm"]) == ["vllm"]


def test_prompts_are_the_same_in_every_run_and_their_lengths_cover_the_range():
    prompts = random_prompts(CAUSAL_SHAPES["qwen-tiny"].vocab_size, 32, 100)

    assert prompts == random_prompts(CAUSAL_SHAPES["qwen-tiny"].vocab_size, 32, 100)
    assert (min(map(len, prompts)), max(map(len, prompts))) == (SHORTEST, 100)
    assert len(set(map(len, prompts))) == 32


def test_bulletins_give_prompts_of_the_same_lengths():
    prompts = bulletin_prompts(BUNDLED[DEFAULT_CAUSAL], 4, 100)

    assert [len(ids) for ids in prompts] == prompt_lengths(4, 100)
    assert len({tuple(ids[:SHORTEST]) for ids in prompts}) > 1


def test_a_prompt_is_never_longer_than_the_longest():
    assert prompt_lengths(3, 2) == [2, 2, 2]


def test_a_row_counts_generated_tokens_and_those_that_the_reference_has_too():
    (work,) = choose(WORKS, PEERS, ["int8", "llamacpp-q8_0"], full=False)
    runs = {
        "transformers-fp32": [Run(9.0, 9.0, [[1, 2], [3, 4]])],
        "kvjobs int8": [Run(1.0, 2.0, [[1, 2], [3, 9]])],
        "llamacpp-q8_0": [Run(4.0, 6.0, [[1, 2], [9, 9]])],
    }

    (row,) = compared([work], runs)

    assert (row.ours, row.theirs, row.ratio) == (4.0, 1.0, 4.0)
    assert row.cpu_ratio == pytest.approx(3.0)
    assert (row.our_equal, row.their_equal) == (0.75, 0.5)

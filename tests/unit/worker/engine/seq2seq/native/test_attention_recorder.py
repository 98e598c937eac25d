"""Where a decoder attends, recorded step by step: of each hypothesis what its own tokens asked, whatever rows moved."""

from typing import Any
from zlib import crc32

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.engine.search.steps import RandomStep, rules
from tests.unit.worker.engine.search.test_search_in_slots import RULES, VOCAB, follow_arrivals
from worker.engine.search.search import new_search
from worker.engine.seq2seq.native.attention_recorder import AttentionRecorder

LAYERS, RECORDED, HEADS, SIZE, SCALE = 3, (0, 2), 2, 4, 0.5
ARRIVALS = st.lists(
    st.tuples(st.integers(0, 99), st.integers(0, 12)), min_size=1, max_size=6, unique_by=lambda arrival: arrival[0]
)


def random_numbers(*shape: int, of: Any) -> Any:
    return np.random.default_rng(crc32(repr(of).encode())).normal(size=shape).astype(np.float32)


def cross(seed: int) -> Any:
    """(S, 2 L, N, H)"""
    return random_numbers(3 + seed % 3, 2 * LAYERS, HEADS, SIZE, of=("keys", seed))


def queries(seed: int, fed: tuple[int, ...]) -> Any:
    """Of the last of the tokens that were fed (C N H,)."""
    return random_numbers(len(RECORDED) * HEADS * SIZE, of=(seed, fed))


class RecordedSteps(RandomStep):
    def __init__(self, beams: int) -> None:
        super().__init__([], VOCAB)
        self.beams = beams
        self.recorder = AttentionRecorder(RECORDED, SCALE, beams)

    def admit(self, seeds: Any) -> None:
        super().admit(seeds)
        for seed in seeds[:: self.beams]:
            self.recorder.begin([seed], cross(seed)[None])

    def step(self, last_ids: Any) -> Any:
        logits = super().step(last_ids)
        self.recorder.read(last_ids, np.stack([queries(seed, fed) for seed, fed in self.rows]))
        return logits

    def select(self, rows: Any) -> None:
        super().select(rows)
        self.recorder.select(rows)


def attention(seed: int, read: tuple[int, ...]) -> Any:
    """The slow twin of `AttentionRecorder.weights`."""
    found = []
    for number in range(1, len(read) + 1):
        asked = queries(seed, read[:number]).reshape(len(RECORDED), HEADS, SIZE)
        of_heads = []
        for place, layer in enumerate(RECORDED):
            for head in range(HEADS):
                scores = SCALE * cross(seed)[:, 2 * layer, head] @ asked[place, head]
                shares = np.exp(scores - scores.max())
                of_heads.append(shares / shares.sum())
        found.append(np.mean(of_heads, axis=0))
    return np.stack(found)


@given(arrivals=ARRIVALS, changes=RULES, room=st.integers(1, 4))
def test_every_hypothesis_has_the_attention_of_its_own_tokens(arrivals: Any, changes: Any, room: int) -> None:
    search_rules = rules(**changes)
    steps = RecordedSteps(search_rules.num_beams)

    found = follow_arrivals(new_search(search_rules), steps, arrivals, search_rules, room)

    for (seed, _step), hypotheses in zip(arrivals, found, strict=True):
        for hypothesis in hypotheses:
            read = (search_rules.start_id, *hypothesis.ids[:-1])
            np.testing.assert_allclose(steps.recorder.weights(seed, read), attention(seed, read), atol=1e-5)


def test_half_precision_is_computed_in_float32() -> None:
    recorder, keys = AttentionRecorder([0], 1.0, 1), (cross(1) * 200).astype(np.float16)
    recorder.begin([7], keys[None])
    recorder.read(np.array([1]), np.full((1, HEADS * SIZE), 300, np.float32))

    weights = recorder.weights(7, [1])

    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)

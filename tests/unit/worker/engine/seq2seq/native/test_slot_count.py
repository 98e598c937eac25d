"""The number of slots by the sizes of a model."""

import numpy as np
import pytest

from worker.engine.seq2seq.native.kv_slots import KVSlotShape, slot_count


@pytest.mark.parametrize(
    ("layers", "width", "num_ids", "beams", "wanted"),
    [
        (3, 128, 945, 1, 128),
        (3, 128, 945, 4, 64),
        (2, 256, 32_000, 1, 96),
        (6, 512, 65_001, 1, 32),
        (6, 512, 65_001, 6, 32),
    ],
    ids=["demo", "demo, beams", "tiny", "opus-shaped", "opus-shaped, beams"],
)
def test_a_small_model_gets_many_slots_and_a_large_one_as_many_as_ever(
    layers: int, width: int, num_ids: int, beams: int, wanted: int
) -> None:
    shape = KVSlotShape(layers, 4, width // 4, np.dtype(np.float32))

    assert slot_count(shape, num_ids, beams) == wanted

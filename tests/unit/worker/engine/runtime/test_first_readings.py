"""What was read is kept by model and ids, as long as it fits."""

import numpy as np

from worker.engine.runtime.first_readings import FirstReadings


def test_states_are_found_by_model_and_source_until_the_memory_is_full() -> None:
    kept, states = FirstReadings(max_bytes=300), np.arange(32.0).reshape(2, 4, 2, 1, 2)

    kept.keep("first", [[1, 2], [3, 4]], states)
    kept.keep("second", [[5, 6]], states)

    found = kept.get("first", (3, 4))
    assert found is not None
    assert (found == states[1]).all()
    assert kept.get("second", [3, 4]) is None
    assert kept.get("second", [5, 6]) is None, "it does not fit"


def test_attention_is_found_by_model_source_and_target_until_the_memory_is_full() -> None:
    kept, weights = FirstReadings(max_bytes=60), np.ones((3, 4), np.float32)

    kept.keep_attention("first", [1, 2], (3, 4), weights)
    kept.keep_attention("first", [1, 2], (5,), weights)

    assert kept.attention("first", (1, 2), [3, 4]) is weights
    assert kept.attention("second", (1, 2), [3, 4]) is None
    assert kept.attention("first", (1, 2), [5]) is None, "it does not fit"

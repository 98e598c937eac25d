"""States of sources are kept by model and source, as long as they fit."""

import numpy as np

from worker.engine.runtime.encoded_sources import EncodedSources


def test_states_are_found_by_model_and_source_until_the_memory_is_full() -> None:
    kept, states = EncodedSources(max_bytes=300), np.arange(32.0).reshape(2, 4, 2, 1, 2)

    kept.keep("first", [[1, 2], [3, 4]], states)
    kept.keep("second", [[5, 6]], states)

    found = kept.get("first", (3, 4))
    assert found is not None
    assert (found == states[1]).all()
    assert kept.get("second", [3, 4]) is None
    assert kept.get("second", [5, 6]) is None, "it does not fit"

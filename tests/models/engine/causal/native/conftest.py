from collections.abc import Callable

import pytest

from tests.models.engine.causal.native.tiny_causal import TinyCausal, write_tiny
from worker.graphs.precision import Precision


@pytest.fixture(scope="package")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TinyCausal]:
    """A tiny model by its name and precision, made once."""
    made: dict[tuple[str, Precision], TinyCausal] = {}

    def open_(name: str, precision: Precision = Precision.FP32) -> TinyCausal:
        if (name, precision) not in made:
            made[name, precision] = write_tiny(tmp_path_factory.mktemp("causal"), name, precision)
        return made[name, precision]

    return open_

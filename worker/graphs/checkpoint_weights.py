"""The weights of a checkpoint as a graph builder takes them, of either family."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

Weights = Mapping[str, NDArray[Any]]  # by their names in Hugging Face checkpoints; each access loads one

# The most layers that a config.json may ask for: more than any model has, and few enough that a list of the names of
# their tensors fits into memory.
MAX_LAYERS = 10_000

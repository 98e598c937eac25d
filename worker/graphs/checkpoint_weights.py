"""What the weights of a checkpoint are to a graph builder, whatever the family."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

Weights = Mapping[str, NDArray[Any]]  # by their names in Hugging Face checkpoints; each is loaded when it is asked for

MAX_LAYERS = 10_000  # more than any model has; the names of their tensors fit into memory

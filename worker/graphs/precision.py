"""The precision of a graph."""

import enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class Precision(enum.StrEnum):
    """How a graph computes its matrix products; between them, values have the type `float_dtype`."""

    FP32 = "fp32"  # exact: gives the ids that the checkpoint gives
    INT8 = "int8"  # weights scaled per column, activations per row: a row's result does not depend on its neighbours
    FP16 = "fp16"  # for CUDA

    @property
    def float_dtype(self) -> "np.dtype[Any]":
        """The type of a graph's hidden states, keys, values and float weights."""
        import numpy as np  # not above: commands that name a precision and compute nothing start without numpy

        return np.dtype(np.float16 if self is Precision.FP16 else np.float32)

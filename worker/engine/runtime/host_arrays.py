"""Arrays in the host's memory as inputs and outputs of a session. A CPU works on them in place."""

from typing import Any

from numpy.typing import NDArray
from onnxruntime import IOBinding


def bind_input(binding: IOBinding, name: str, array: NDArray[Any]) -> None:
    """Feed a contiguous array, which has to outlive the run. For a GPU it is copied now, not when the graph runs
    (IOBinding::BindInput)."""
    binding.bind_input(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)


def bind_output(binding: IOBinding, name: str, array: NDArray[Any]) -> None:
    """Write an output into a contiguous array, which has to outlive the run. From a GPU it is copied at its end."""
    binding.bind_output(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)

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


def bind_past(binding: IOBinding, past: NDArray[Any]) -> None:
    """Bind the key and the value of each layer (2 L, R, K, C, H) both as `past.LAYER.PART` and as `present.LAYER.PART`:
    the graph writes behind the tokens that it reads. Each of the 2 L arrays is contiguous."""
    for number, array in enumerate(past):
        layer, part = divmod(number, 2)
        name = f"{layer}.{('key', 'value')[part]}"
        bind_input(binding, f"past.{name}", array)
        bind_output(binding, f"present.{name}", array)

"""Arrays in the host's memory: allocated once and used again, bound as inputs and outputs of a session. A CPU works on
them in place."""

import math
from typing import Any

import numpy as np
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


class GrowingBuffer:
    """A block of memory for numbers of one type. It grows when it is too small, and never shrinks."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.allocations = 0
        self._memory = np.empty(0, dtype)

    @property
    def num_bytes(self) -> int:
        """Bytes held, used or not."""
        return self._memory.nbytes

    @property
    def size(self) -> int:
        """How many numbers fit into the memory."""
        return self._memory.size

    def lay_out(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """An array at the start of the memory; its content is whatever was there.

        If the block has to grow, the old one is freed first, unless an array over it is still in use.
        """
        size = math.prod(shape)
        if self.size < size:
            self.allocations += 1
            self.release()
            self._memory = np.empty(size, self._memory.dtype)
        return self._memory[:size].reshape(shape)

    def release(self) -> None:
        """Free the memory; an array over it that is still in use keeps it alive."""
        self._memory = np.empty(0, self._memory.dtype)

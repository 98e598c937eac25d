"""Memory that is allocated once and used again, for arrays of any shape."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


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

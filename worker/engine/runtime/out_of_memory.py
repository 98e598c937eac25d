"""Model calls for which there is not enough memory: how they are recognized, and tried again with half as much."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

log = logging.getLogger(__name__)

# onnxruntime raises Fail or RuntimeException for anything; only the text tells. CPU arena, C++, CUDA's allocator.
_SIGNS = ("failed to allocate memory", "bad_alloc", "bfcarena", "out of memory", "cuda_error_out_of_memory")


@dataclass(slots=True)
class Attempt:
    """A block that needs memory for `size` rows, tokens or the like."""

    size: int
    least: int
    fits: bool = True  # False once the block ran out of memory

    @property
    def half(self) -> int:
        """What to try next, the larger half; not below `least`."""
        return max(self.least, (self.size + 1) // 2)


@contextmanager
def halve_on_out_of_memory(size: int, what: str, *, least: int = 1) -> Iterator[Attempt]:
    """Run the block; where it runs out of memory, log that `size` of `what` do not fit, and go on behind it.

        with halve_on_out_of_memory(len(batch), "sentences") as attempt:
            ...                             # may run out of memory
        if not attempt.fits:
            ...                             # give buffers back, then try again with attempt.half

    What comes next belongs behind the block and not into it: until the block is left, the error holds on to the arrays
    of the call. Raises the error itself where `size` is `least` already, and every other error.
    """
    attempt = Attempt(size, least)
    try:
        yield attempt
    except Exception as error:
        if size <= least or not is_out_of_memory(error):
            raise
        log.warning("%d %s do not fit into memory: %s", size, what, str(error))  # its text: a handler may keep records
        attempt.fits = False


def is_out_of_memory(error: Exception) -> bool:
    """Whether less to do at once may help."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)

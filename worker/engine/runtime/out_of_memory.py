"""Model calls that run out of memory: how to recognize them, and how to try again with half as much."""

import logging
from dataclasses import dataclass

log = logging.getLogger(__name__)

# onnxruntime raises Fail or RuntimeException for any reason; only the message tells. These are the
# messages of its CPU arena, of C++ and of CUDA.
_SIGNS = ("failed to allocate memory", "bad_alloc", "bfcarena", "out of memory", "cuda_error_out_of_memory")


def halve_on_out_of_memory(size: int, noun: str, *, least: int = 1) -> "Attempt":
    """Run the block. If it runs out of memory, log that `size` of `noun` do not fit, and continue after the block:

        with halve_on_out_of_memory(len(batch), "sentences") as attempt:
            ...                             # may run out of memory
        if not attempt.fits:
            ...                             # free buffers, then try again with attempt.half

    Buffers are freed after the block, not inside it, because until then the error holds the arrays of the call. Raises
    the error itself if `size` is already `least`, and every other error.
    """
    return Attempt(size, noun, least)


@dataclass(slots=True)
class Attempt:
    """The run of a block that works on `size` rows, tokens or the like at once.

    Not a generator of contextlib: from Python 3.12 on, one that ends an error leaves it in a reference cycle, and the
    arrays of the call with it.
    """

    size: int
    what: str
    least: int
    fits: bool = True  # False once the block ran out of memory

    @property
    def half(self) -> int:
        """The size to try next: the larger half, but at least `least`."""
        return max(self.least, (self.size + 1) // 2)

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, Exception) or self.size <= self.least or not is_out_of_memory(error):
            return False
        # The error's text, not the error: a log handler may keep its records.
        log.warning("%d %s do not fit into memory: %s", self.size, self.what, str(error))
        self.fits = False
        return True


def is_out_of_memory(error: Exception) -> bool:
    """Whether a smaller call may succeed."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)

"""Model calls for which there is not enough memory: how they are known, and how they are made smaller."""

from collections.abc import Sequence

from worker.engine.seq2seq.padding import PaddedBatch, pad

# onnxruntime raises Fail or RuntimeException for anything; only the text tells. CPU arena, C++, CUDA's allocator.
_SIGNS = ("failed to allocate memory", "bad_alloc", "bfcarena", "out of memory", "cuda_error_out_of_memory")


def is_out_of_memory(error: Exception) -> bool:
    """Whether less to do at once may help."""
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


def halves(segments: Sequence[Sequence[int]], batch: PaddedBatch, pad_id: int) -> tuple[PaddedBatch, PaddedBatch]:
    """The same rows as two batches, the larger first; the second may have less padding."""
    middle = larger_half(batch)
    return pad(segments, batch.order[:middle], pad_id), pad(segments, batch.order[middle:], pad_id)


def larger_half(batch: PaddedBatch) -> int:
    """Rows."""
    return (len(batch.order) + 1) // 2

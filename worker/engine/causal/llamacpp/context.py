"""
One lane's state of a network: keys and values of the sequences that it is reading, and the logits of its last call.

Keys and values are float32, and attention is computed without llama.cpp's flash attention, which computes in float16
whatever the cache is. Against float32 throughout, log-probabilities of `demo-lm` (F32) change by up to 0.017 with flash
attention and by up to 0.015 with a cache in float16; so they are within 2e-5, packed or alone.

Shapes: M tokens of a call · R of them whose logits are asked for · V vocabulary.
"""

import ctypes
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError
from worker.engine.causal.llamacpp.library import first_error, forget_error, llama_cpp
from worker.engine.causal.llamacpp.network import Network

_F32 = 0  # GGML_TYPE_F32
_NO_FLASH = 0  # LLAMA_FLASH_ATTN_TYPE_DISABLED
LEAST_TOKENS = 32  # of a call
# Of a call. On one core demo-lm reads 12,600 tokens/s with 256 and 9,100 with 512; larger models are as fast with both.
_MOST_TOKENS = 256
_MOST_LOGITS = 1 << 26  # of a call, 256 MB: llama.cpp holds them twice
_MOST_PRODUCTS = 1 << 38  # of a call, so that it ends, and a lane can stop, after seconds on one core
_SCORE_BYTES = 1 << 28  # of attention scores: one for each head, cell and token that is computed at once
_SEQUENCES = 128  # in a context
_PAD = 256  # cells; llama.cpp rounds up to as many


@dataclass(frozen=True, slots=True)
class ContextSize:
    """How much a context has room for. Contexts of the same size give the same bits."""

    cells: int  # tokens of all sequences together
    tokens: int  # of one call
    computed: int  # tokens that go through the network at once
    sequences: int


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Consecutive tokens of a sequence, to be read in one call."""

    sequence: int
    start: int  # the position of the first of them
    ids: Sequence[int]
    first_row: int  # the first of them whose logits are asked for, with all that follow; len(ids): none are


class LlamaContext:
    """The memory of one lane, allocated when it is made; freed with the last reference to it."""

    def __init__(self, network: Network, size: ContextSize, threads: int) -> None:
        """Raises MemoryError where there is no room for it."""
        functions = llama_cpp()
        settings = functions.llama_context_default_params()
        settings.n_ctx = size.cells
        settings.n_batch = size.tokens
        settings.n_ubatch = size.computed
        settings.n_seq_max = size.sequences
        settings.n_outputs_max = settings.n_outputs_max_per_seq = size.tokens
        settings.kv_unified = True  # so that a cell can belong to many sequences, and a copy costs nothing
        settings.swa_full = True  # else a sliding window forgets the prefix before all its suffixes are read
        settings.n_threads = settings.n_threads_batch = threads
        settings.type_k = settings.type_v = _F32
        settings.flash_attn_type = _NO_FLASH
        settings.offload_kqv = settings.op_offload = False
        forget_error()
        self._handle = functions.llama_init_from_model(network.handle, settings)
        if not self._handle:
            raise MemoryError(f"llama.cpp cannot make a context of {size.cells:,} tokens: {first_error()}")
        self._network = network  # which has to live as long
        self._memory = functions.llama_get_memory(self._handle)
        self._batch = _TokenBatch(size.tokens)
        self._thread = ThreadPoolExecutor(1, "llama.cpp")
        self.size = size
        # The finalizer holds the network, so the context is freed before its model in any order of collection.
        weakref.finalize(self, _free, functions.llama_free, self._handle, network).atexit = False

    def clear(self) -> None:
        """Forget all sequences."""
        if self._memory:  # None: the network has no state beyond a call
            llama_cpp().llama_memory_clear(self._memory, False)

    def share(self, prefix: int, sequences: range) -> None:
        """Let each of `sequences` begin with all tokens of `prefix`, which are not copied."""
        for sequence in sequences:
            llama_cpp().llama_memory_seq_cp(self._memory, prefix, sequence, -1, -1)

    def forget(self, sequences: range) -> None:
        """Forget these sequences; cells that others share stay."""
        for sequence in sequences:
            llama_cpp().llama_memory_seq_rm(self._memory, sequence, -1, -1)

    def read(self, pieces: Sequence[TokenSpan]) -> None:
        """Read the pieces in one call. Raises MemoryError where it does not fit, ModelError where it fails."""
        self._batch.fill(pieces)
        status, error = self._thread.submit(self._decode).result()
        if status in (1, -2):  # no free cells; no memory for the logits (llama_decode in llama.h)
            raise MemoryError(f"llama.cpp has no memory for {self._batch.num_tokens:,} tokens: {error}")
        if status:
            raise ModelError(f"llama.cpp fails with status {status} ({error or 'no reason given'})")

    def _decode(self) -> tuple[int, str]:
        """The status, and the first error.

        In a thread where nothing else computes: llama.cpp configures the tiles of AMX once a thread, and onnxruntime's
        products in int8 configure them anew. After those, log-probabilities in the same thread were off by 138 nats
        (Gemma-3 in Q4_K_M, llama-cpp-python 0.3.36, Xeon, 2026-11-26).
        """
        functions = llama_cpp()
        forget_error()
        status: int = functions.llama_decode(self._handle, self._batch.struct)
        functions.llama_synchronize(self._handle)
        return status, first_error()

    def logits(self) -> NDArray[np.float32]:
        """The logits (R, V) that were asked for in the last call, in the order of its pieces; valid until the next."""
        shape = self._batch.num_rows, self._network.vocab_size
        if not self._batch.num_rows:
            return np.empty(shape, np.float32)
        rows: NDArray[np.float32] = np.ctypeslib.as_array(llama_cpp().llama_get_logits(self._handle), shape)
        return rows


def _free(free: Any, handle: Any, network: Network) -> None:
    """Free a context while its network lives."""
    free(handle)


class _TokenBatch:
    """A `llama_batch` over arrays that are filled again for each call."""

    def __init__(self, max_tokens: int) -> None:
        functions = llama_cpp()
        self.num_tokens = self.num_rows = 0
        self._ids = np.zeros(max_tokens, np.int32)
        self._positions = np.zeros(max_tokens, np.int32)
        self._num_sequences = np.ones(max_tokens, np.int32)  # that a token belongs to
        self._sequences = np.zeros(max_tokens, np.int32)
        self._are_rows = np.zeros(max_tokens, np.int8)
        addresses = self._sequences.ctypes.data + 4 * np.arange(max_tokens, dtype=np.uint64)
        self._addresses = addresses.astype(np.uintp)  # of each token's list of sequences
        int32s, int8s = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_int8)
        self.struct = functions.llama_batch()
        self.struct.token = self._ids.ctypes.data_as(int32s)
        self.struct.pos = self._positions.ctypes.data_as(int32s)
        self.struct.n_seq_id = self._num_sequences.ctypes.data_as(int32s)
        self.struct.seq_id = self._addresses.ctypes.data_as(ctypes.POINTER(int32s))
        self.struct.logits = self._are_rows.ctypes.data_as(int8s)

    def fill(self, pieces: Sequence[TokenSpan]) -> None:
        end = rows = 0
        for piece in pieces:
            start, end = end, end + len(piece.ids)
            self._ids[start:end] = piece.ids
            self._positions[start:end] = np.arange(piece.start, piece.start + len(piece.ids))
            self._sequences[start:end] = piece.sequence
            self._are_rows[start:end] = 0
            self._are_rows[start + piece.first_row : end] = 1
            rows += len(piece.ids) - piece.first_row
        self.num_tokens = self.struct.n_tokens = end
        self.num_rows = rows


@dataclass(frozen=True, slots=True)
class ContextLimits:
    """How large a call, and the context that it works in, may be."""

    tokens: int
    is_packed: bool  # many sequences per call, and shared prefixes computed once
    cells: int | None = None  # of every context; None: as many as its sequences need

    def sequences(self, tokens: int) -> int:
        """The sequences of a context with calls of `tokens` tokens: never more, else llama.cpp ends the process."""
        return min(_SEQUENCES, tokens) if self.is_packed else 1

    @classmethod
    def of(cls, network: Network, *, is_packed: bool, cells: int | None) -> "ContextLimits":
        """The limits for a network that keep a call within its memory and a few seconds."""
        most = min(_MOST_TOKENS, _MOST_LOGITS // network.vocab_size, _MOST_PRODUCTS // max(1, network.num_parameters))
        tokens = max(LEAST_TOKENS, most // LEAST_TOKENS * LEAST_TOKENS)
        is_packed = is_packed and not network.is_recurrent and cells is None
        return cls(min(tokens, cells) if cells else tokens, is_packed, cells)

    def context_size(self, network: Network, cells: int, tokens: int, sequences: int) -> ContextSize:
        """The size of a context for at least `cells` tokens, rounded up to a power of two so that it is seldom
        replaced."""
        cells = self.cells or max(_PAD, 1 << (cells - 1).bit_length())
        scores = max(1, network.num_heads) * cells * 4  # bytes, of one token
        computed = min(tokens, max(LEAST_TOKENS, _SCORE_BYTES // scores))
        return ContextSize(cells, tokens, computed, sequences)

"""
The weights and the vocabulary of a GGUF file in memory: llama.cpp's `llama_model`.

Knows: which models give log-probabilities of a text from left to right. Does not know: contexts, sequences.
"""

import weakref
from pathlib import Path
from typing import Any

from jobs.errors import ModelError
from worker.engine.causal.llamacpp.library import first_error, forget_error, llama_cpp


class Network:
    """Immutable after `open`: llama.cpp lets any number of contexts, each in a thread, share one. Freed with the last
    reference to it."""

    def __init__(self, handle: Any, file: Path, *, vocab_only: bool) -> None:
        functions = llama_cpp()
        # Not at the end of the process: a lane's thread may be computing then, and the system frees everything.
        weakref.finalize(self, functions.llama_model_free, handle).atexit = False
        self.handle = handle
        self.vocabulary = functions.llama_model_get_vocab(handle)
        self.vocab_size: int = functions.llama_vocab_n_tokens(self.vocabulary)
        # Without the weights nothing else is known, and llama.cpp ends a process that asks.
        self.num_parameters: int = 0 if vocab_only else functions.llama_model_n_params(handle)
        self.num_heads: int = 0 if vocab_only else functions.llama_model_n_head(handle)
        # The state of a recurrent layer belongs to its last token: a prefix of a sequence cannot be taken from it.
        self.is_recurrent: bool = not vocab_only and (
            functions.llama_model_is_recurrent(handle) or functions.llama_model_is_hybrid(handle)
        )
        self._file = file

    @classmethod
    def open(cls, file: Path, *, vocab_only: bool = False) -> "Network":
        """Load the file, mapped into memory, on the CPU; `vocab_only`: without its weights, to tokenize.

        Raises ModelError where llama.cpp refuses it, or where it does not predict each token from those before it. A
        damaged file can end the process: see `worker.models.checkpoint.gguf_file`, and `trial`.
        """
        functions = llama_cpp()
        settings = functions.llama_model_default_params()
        settings.vocab_only = vocab_only
        settings.n_gpu_layers = 0
        forget_error()
        handle = functions.llama_model_load_from_file(str(file).encode(), settings)
        if not handle:
            raise ModelError(f"llama.cpp cannot load {file}: {first_error() or 'it gives no reason'}")
        network = cls(handle, file, vocab_only=vocab_only)
        network._check(vocab_only=vocab_only)
        return network

    def _check(self, *, vocab_only: bool) -> None:
        functions = llama_cpp()
        if functions.llama_vocab_type(self.vocabulary) == functions.LLAMA_VOCAB_TYPE_NONE:
            raise ModelError(f"{self._file} has no vocabulary (tokenizer.ggml.model), so it cannot read a text")
        if vocab_only:
            return
        if functions.llama_model_has_encoder(self.handle) or functions.llama_model_is_diffusion(self.handle):
            kind = "an encoder" if functions.llama_model_has_encoder(self.handle) else "diffusion"
            raise ModelError(
                f"{self._file} holds a model with {kind}, which does not predict each token from those before it: "
                "take a causal language model"
            )

"""Opening a causal language model and its tokenizer: native graphs, an export, or a GGUF file."""

from collections.abc import Sequence
from pathlib import Path

from worker.engine.causal.exported.model import ExportedCausal
from worker.engine.causal.llamacpp.library import LIBRARY, PACKAGE, NotInstalledError
from worker.engine.causal.llamacpp.model import LlamaCppCausal
from worker.engine.causal.llamacpp.tokenizer import LlamaCppTokenizer
from worker.engine.causal.native.model import NativeCausal
from worker.engine.causal.protocol import CausalModel
from worker.engine.runtime.device import CPU_PROVIDER, Provider
from worker.models.checkpoint.gguf_file import GgufFile
from worker.models.file_names import GGUF_MODEL
from worker.models.manifest import has_native_graphs, is_gguf
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.chat_template import ChatTemplate, ChatTokenizer
from worker.text.gguf_tokenizer import open_gguf_template

__all__ = [
    "LIBRARY",
    "PACKAGE",
    "NotInstalledError",
    "Tokenizer",
    "open_causal_model",
    "open_causal_tokenizer",
    "open_chat_template",
    "open_chat_tokenizer",
]

Tokenizer = CausalTokenizer | LlamaCppTokenizer


def open_causal_model(
    folder: Path,
    *,
    threads: int = 1,
    providers: Sequence[Provider] = (CPU_PROVIDER,),
    context: int = 0,
    vocab_only: bool = False,
) -> CausalModel:
    """Open the model in `folder`; raise ModelError now, not at the first document.

    For a GGUF file, which runs on the CPU, `context` is the most positions that a sequence may have (0: as many as the
    model was trained for), and `vocab_only` leaves the weights out, to ask only for properties of the model. Raises
    NotInstalledError where llama.cpp is missing.
    """
    if is_gguf(folder):
        return LlamaCppCausal.open(folder, threads=threads, context=context, vocab_only=vocab_only)
    if has_native_graphs(folder):
        return NativeCausal.open(folder, threads=threads, providers=providers)
    return ExportedCausal.open(folder, threads=threads, providers=providers)


def open_chat_tokenizer(folder: Path, tokenizer: Tokenizer) -> ChatTokenizer | None:
    """The chat template of the model in `folder`, with its tokenizer; None where it has none. Raises ModelError for a
    template that is damaged."""
    template = open_chat_template(folder)
    return None if template is None else ChatTokenizer(template, tokenizer)


def open_chat_template(folder: Path) -> ChatTemplate | None:
    """The chat template of the model in `folder`: of its own files, or in its GGUF file. Raises ModelError for one that
    is damaged."""
    if not is_gguf(folder):
        return ChatTemplate.open(folder)
    file = folder / GGUF_MODEL
    return open_gguf_template(GgufFile.open(file).metadata, file)


def open_causal_tokenizer(folder: Path, model: CausalModel | None = None) -> Tokenizer:
    """Open the tokenizer of the model in `folder`; `model`: where it is open. Raises ModelError where it is damaged, or
    makes ids that the model does not have."""
    if is_gguf(folder):
        opened = model if isinstance(model, LlamaCppCausal) else LlamaCppCausal.open(folder, vocab_only=True)
        return LlamaCppTokenizer(opened.network)
    return CausalTokenizer.open(folder, model.vocab_size if model else None)

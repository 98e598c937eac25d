"""Whether the ids of two models mean the same tokens, so that their results can be compared id by id."""

from collections.abc import Sequence

from jobs.errors import SpecError
from worker.engine.causal.open import open_causal_tokenizer
from worker.models.manifest import is_gguf
from worker.models.model_folder import ModelFolder

_SAMPLE = (
    "The quick brown fox, at 23.5 °C; it's 雪 and 🙂.\n\n\tdef main():  return 1_000\r\n",
    "Ein Maß Öl kostet 12,50 €, naïve café résumé, Ελληνικά, Русский, العربية, 日本語, 한국어",
)


def check_same_files(folder: ModelFolder, other: ModelFolder, names: Sequence[str]) -> None:
    """Raise SpecError where two models differ in one of these files of their tokenizers. A model may lack a file."""
    for name in names:
        ours, theirs = folder.path / name, other.path / name
        if ours.is_file() != theirs.is_file() or (ours.is_file() and ours.read_bytes() != theirs.read_bytes()):
            raise SpecError(f"{folder.name} and {other.name} differ in {name}: their ids cannot be compared")


def check_same_ids(folder: ModelFolder, other: ModelFolder, names: Sequence[str]) -> None:
    """As `check_same_files`. A causal model in a GGUF file has no such files: the ids of a few texts are compared."""
    if not (is_gguf(folder.path) or is_gguf(other.path)):
        check_same_files(folder, other, names)
        return
    ours, theirs = open_causal_tokenizer(folder.path), open_causal_tokenizer(other.path)
    if any(ours.encode(text).ids != theirs.encode(text).ids for text in _SAMPLE):
        raise SpecError(f"{folder.name} and {other.name} cut texts into other tokens: their ids cannot be compared")

"""Which files the tokenizer of a translation model is read from. Needs only the standard library."""

from collections.abc import Collection

from worker.graphs.architectures import M2M100, MARIAN
from worker.models.file_names import (
    M2M100_TOKENIZER,
    M2M100_TOKENIZER_EXTRAS,
    MARIAN_TOKENIZER,
    MARIAN_TOKENIZER_EXTRAS,
)

# All files of a tokenizer, by family.
TRANSLATION_TOKENIZERS = {
    MARIAN: (*MARIAN_TOKENIZER, *MARIAN_TOKENIZER_EXTRAS),
    M2M100: (*M2M100_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
}


def required_tokenizer(family: str, names: Collection[str]) -> tuple[str, ...]:
    """Those that a model cannot do without; `names`: of the files that there are."""
    if family == MARIAN:
        return MARIAN_TOKENIZER
    fast, table, pieces = M2M100_TOKENIZER
    if fast in names:
        return (fast,)
    return (table, pieces) if table in names else (pieces,)

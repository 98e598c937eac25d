"""Which files the tokenizer of a translation model is read from. Needs only the standard library."""

from collections.abc import Collection

from worker.graphs.architectures import BART, M2M100, MARIAN, MBART, MT5, PEGASUS, T5
from worker.models.file_names import (
    BART_TOKENIZER,
    M2M100_TOKENIZER,
    M2M100_TOKENIZER_EXTRAS,
    MARIAN_TOKENIZER,
    MARIAN_TOKENIZER_EXTRAS,
    MBART_TOKENIZER,
    PEGASUS_TOKENIZER,
    T5_TOKENIZER,
)

# All files of a tokenizer, by family.
TRANSLATION_TOKENIZERS = {
    MARIAN: (*MARIAN_TOKENIZER, *MARIAN_TOKENIZER_EXTRAS),
    M2M100: (*M2M100_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    MBART: (*MBART_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    BART: (*BART_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    PEGASUS: (*PEGASUS_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    T5: (*T5_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
    MT5: (*T5_TOKENIZER, *M2M100_TOKENIZER_EXTRAS),
}


def required_tokenizer(family: str, names: Collection[str]) -> tuple[str, ...]:
    """Those that a model cannot do without; `names`: of the files that there are."""
    if family == MARIAN:
        return MARIAN_TOKENIZER
    fast, *others = TRANSLATION_TOKENIZERS[family][: -len(M2M100_TOKENIZER_EXTRAS)]
    if fast in names or not others:
        return (fast,)
    table, pieces = others[0], others[-1]
    return (table, pieces) if table in names and table != pieces else (pieces,)

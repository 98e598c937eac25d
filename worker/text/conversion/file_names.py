"""The names of the files of older tokenizers. Needs only the standard library."""

from collections.abc import Collection

VOCAB_JSON, MERGES, VOCAB_TXT = "vocab.json", "merges.txt", "vocab.txt"
# Each is the full set of files from which a tokenizer class reads pieces.
VOCABULARIES = ((VOCAB_JSON, MERGES), (VOCAB_TXT,))
VOCABULARY_FILES = tuple(name for files in VOCABULARIES for name in files)


def vocabulary_in(names: Collection[str]) -> tuple[str, ...]:
    """The files among `names` from which a tokenizer.json can be made; empty if no known tokenizer class reads them."""
    return next((files for files in VOCABULARIES if {*files} <= {*names}), ())

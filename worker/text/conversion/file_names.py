"""What the files of older tokenizers are called. Needs only the standard library."""

from collections.abc import Collection

VOCAB_JSON, MERGES, VOCAB_TXT = "vocab.json", "merges.txt", "vocab.txt"
# Each is all that a tokenizer class reads pieces from.
VOCABULARIES = ((VOCAB_JSON, MERGES), (VOCAB_TXT,))
VOCABULARY_FILES = tuple(name for files in VOCABULARIES for name in files)


def vocabulary_in(names: Collection[str]) -> tuple[str, ...]:
    """Those of the files `names` that a tokenizer.json can be made of, if they are of a known tokenizer class."""
    return next((files for files in VOCABULARIES if {*files} <= {*names}), ())

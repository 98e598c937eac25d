"""
The names of the files of tokenizers and chat templates, except files that end in .json or .spm.

A loader reads a file under a name that stands here: these names belong to the revision of a model
(worker/models/model_folder.py), and a test compares them with the files that are opened.
"""

from collections.abc import Collection

SENTENCEPIECE_BPE = "sentencepiece.bpe.model"  # of M2M100, NLLB-200 and mBART
SENTENCEPIECE_UNIGRAM = "spiece.model"  # of T5 and Pegasus
CHAT_TEMPLATE = "chat_template.jinja"  # older models have it in tokenizer_config.json
TEXT_FILES = frozenset({SENTENCEPIECE_BPE, SENTENCEPIECE_UNIGRAM, CHAT_TEMPLATE})
VOCAB_JSON, MERGES, VOCAB_TXT = "vocab.json", "merges.txt", "vocab.txt"
# Each is the full set of files from which a tokenizer class reads pieces.
VOCABULARIES = ((VOCAB_JSON, MERGES), (VOCAB_TXT,))
VOCABULARY_FILES = tuple(name for files in VOCABULARIES for name in files)


def vocabulary_in(names: Collection[str]) -> tuple[str, ...]:
    """The files among `names` from which a tokenizer.json can be made; empty if no known tokenizer class reads them."""
    return next((files for files in VOCABULARIES if {*files} <= {*names}), ())

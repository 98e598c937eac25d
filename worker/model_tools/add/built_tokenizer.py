"""
The tokenizer of a model that is added: copied, or built where the source has only the files of an older tokenizer.

Knows: which files belong to a tokenizer. Does not know: how a vocabulary is converted, how text is encoded.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from jobs.errors import ModelError
from worker.model_tools.origin import Origin
from worker.models.contents.required_files import check_causal_tokenizer
from worker.models.export_advice import CONVERT
from worker.models.file_names import CAUSAL_TOKENIZER, TOKENIZER
from worker.models.manifest import Manifest
from worker.models.readable_file import refuse_link_out
from worker.text.conversion.tokenizer_json import Built, build_tokenizer_json
from worker.text.file_names import VOCABULARY_FILES, vocabulary_in
from worker.text.tokenizer_files import UnknownVocabularyError


def copy_with_tokenizer(origin: Origin, names: Iterable[str], folder: Path) -> list[str]:
    """Copy the files `names` that the origin has, and build tokenizer.json where it has none; return the
    names of the files that were read.

    Raises ModelError where the origin has no tokenizer, or one that cannot be converted for certain.
    """
    copied = origin.present(names)
    origin.copy(copied, folder)
    if TOKENIZER in copied:
        return copied
    vocabulary = origin.present(VOCABULARY_FILES)
    if not vocabulary_in(vocabulary):
        check_causal_tokenizer(origin.folder)
    for name in vocabulary:
        refuse_link_out(origin.folder / name, origin.folder)
    built = build_tokenizer(origin.folder)
    content = json.dumps(built.description, ensure_ascii=False, indent=1)
    (folder / TOKENIZER).write_text(f"{content}\n", encoding="utf-8", newline="")
    return [*copied, *built.files]


def build_tokenizer(folder: Path) -> Built:
    """The tokenizer of a folder without tokenizer.json. Raises ModelError that says what to do."""
    try:
        return build_tokenizer_json(folder)
    except UnknownVocabularyError as error:
        raise ModelError(f"{error}; make a tokenizer.json with `{CONVERT}`, which is then used instead") from error


def built_from(manifest: Manifest) -> str | None:
    """A sentence on what the tokenizer of a model was built from; None where it was copied."""
    if not manifest.is_native or {*CAUSAL_TOKENIZER} & {*manifest.source_files} or TOKENIZER not in manifest.files:
        return None
    files = " and ".join(name for name in VOCABULARY_FILES if name in manifest.source_files)
    return f"The tokenizer is built from {files}, as transformers does: there is no tokenizer.json."

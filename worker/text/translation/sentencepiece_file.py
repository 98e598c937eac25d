"""Reading a SentencePiece model."""

from pathlib import Path

import sentencepiece

from jobs.errors import ModelError


def read_sentencepiece(file: Path, owner: str) -> sentencepiece.SentencePieceProcessor:
    """The model in a file, which belongs to the tokenizer of `owner`; raise ModelError that names what is wrong."""
    content = read_tokenizer_file(file, owner)
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(content)
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(
            f"{file} is not a SentencePiece model ({len(content)} bytes): download or export it again"
        ) from error
    return processor


def read_tokenizer_file(file: Path, owner: str) -> bytes:
    """The content of a file that belongs to the tokenizer of `owner`; raise ModelError where it cannot be read."""
    try:
        return file.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"{file} is missing: it belongs to the tokenizer of {owner}") from error
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error

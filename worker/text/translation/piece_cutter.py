"""
Cutting text into pieces with ids, and joining ids to text: the part of a translation tokenizer that knows no languages.

    SentencePieceCutter   a SentencePiece model cuts; a table, or an offset, gives the ids      slow classes
    TokenizerJsonCutter   tokenizer.json does both                                              ...Fast classes

Text is always plain text: `</s>` in a document is cut like any other characters.

The files of these tokenizers are read and checked here, too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import orjson
import sentencepiece
from sentencepiece import sentencepiece_pb2

from jobs.errors import ModelError
from worker.text.causal_tokenizer import CausalTokenizer
from worker.text.tokenizer_files import read_object

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD_START = "▁"  # how SentencePiece writes a space
_CONFIG = "tokenizer_config.json"


@dataclass(frozen=True, slots=True)
class CutPiece:
    """A piece of a text with start and stop in UTF-8 bytes. If several pieces make up one character, all but the last
    have an empty span."""

    text: str  # with ▁ for a space
    id: int
    start: int
    stop: int


class PieceCutter(Protocol):
    """Cuts text into pieces with ids, and joins ids to text."""

    @property
    def unk_id(self) -> int | None:
        """The id for pieces that the vocabulary lacks; None if it has every piece."""

    def cut(self, text: str) -> list[CutPiece]:
        """The pieces of a text. A lone surrogate, which JSON can carry and UTF-8 cannot, counts as U+FFFD."""

    def join(self, ids: Sequence[int]) -> str:
        """The text of ids; those without a piece are dropped."""

    def piece(self, piece_id: int) -> str:
        """The text of a piece, for messages."""

    def by_frequency(self) -> Sequence[int]:
        """The ids of all pieces, the most frequent first as far as the vocabulary tells."""


class SentencePieceCutter:
    """Immutable, so several lanes may share one."""

    def __init__(
        self, processor: sentencepiece.SentencePieceProcessor, ids: Mapping[str, int], unk_id: int, *, joins: bool
    ) -> None:
        """`ids`: piece -> id, without special pieces; all other pieces get `unk_id`. `joins`: let the SentencePiece
        model, which knows pieces of bytes, join text; else concatenate the pieces."""
        self._processor = processor
        self._ids = ids
        self._pieces = {piece_id: piece for piece, piece_id in ids.items()}
        self.unk_id = unk_id
        self._joins = joins

    def cut(self, text: str) -> list[CutPiece]:
        serialized = self._processor.encode(_SURROGATE.sub("\ufffd", text), out_type="serialized_proto")
        return [
            CutPiece(piece.piece, self._ids.get(piece.piece, self.unk_id), piece.begin, piece.end)
            for piece in sentencepiece_pb2.SentencePieceText.FromString(serialized).pieces
        ]

    def join(self, ids: Sequence[int]) -> str:
        pieces = [self._pieces[int(piece_id)] for piece_id in ids if int(piece_id) in self._pieces]
        text: str = self._processor.decode_pieces(pieces) if self._joins else "".join(pieces)
        return text.replace(_WORD_START, " ").strip()

    def piece(self, piece_id: int) -> str:
        return self._pieces.get(piece_id, f"<{piece_id}>")

    def by_frequency(self) -> Sequence[int]:
        return sorted(self._pieces)


class TokenizerJsonCutter:
    """Immutable, so several lanes may share one."""

    def __init__(self, tokenizer: CausalTokenizer) -> None:
        self.unk_id = tokenizer.unk_id
        self._tokenizer = tokenizer

    def cut(self, text: str) -> list[CutPiece]:
        encoded = self._tokenizer.encode(text)
        pieces = zip(encoded.ids, encoded.starts.tolist(), encoded.stops.tolist(), strict=True)
        return [CutPiece(self._tokenizer.piece(piece_id), piece_id, start, stop) for piece_id, start, stop in pieces]

    def join(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)

    def piece(self, piece_id: int) -> str:
        return self._tokenizer.piece(piece_id)

    def by_frequency(self) -> Sequence[int]:
        return self._by_frequency

    @cached_property
    def _by_frequency(self) -> Sequence[int]:
        special = set(self._tokenizer.special_ids.values())
        return [piece_id for piece_id in range(self._tokenizer.vocab_size) if piece_id not in special]


def pieces_of(processor: sentencepiece.SentencePieceProcessor, offset: int = 0) -> dict[str, int]:
    """The pieces of a SentencePiece model that text is cut into, with the ids of a model that moves them by
    `offset`."""
    return {
        processor.id_to_piece(piece_id): piece_id + offset
        for piece_id in range(len(processor))
        if not (processor.is_control(piece_id) or processor.is_unknown(piece_id))
    }


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


def read_tokenizer_config(folder: Path) -> Mapping[str, Any]:
    """The content of tokenizer_config.json; empty where there is none. Raises ModelError for a setting that cuts text
    at random."""
    config = read_object(folder / _CONFIG, is_optional=True)
    if kwargs := config.get("sp_model_kwargs"):
        raise ModelError(
            f"{folder / _CONFIG} sets sp_model_kwargs = {orjson.dumps(kwargs).decode()}, with which text would be cut "
            "at random: remove it"
        )
    return config


def checked_eos(folder: Path, eos_id: int, cutter: PieceCutter) -> int:
    """Return `eos_id`, the tokenizer's; raise ModelError if it is not the model's, or if pieces have ids that the model
    does not have."""
    config = read_object(folder / "config.json", is_optional=True)
    size, configured = config.get("vocab_size"), config.get("eos_token_id")
    if isinstance(size, int) and (highest := max(cutter.by_frequency(), default=0)) >= size:
        raise ModelError(
            f"the tokenizer in {folder} makes ids up to {highest:,}, but config.json beside it gives a vocabulary of "
            f"{size:,}: the files belong to different models"
        )
    if isinstance(configured, int) and configured != eos_id:
        raise ModelError(
            f"the tokenizer in {folder} has {eos_id} as its end, but config.json beside it says eos_token_id = "
            f"{configured}: the files belong to different models"
        )
    return eos_id

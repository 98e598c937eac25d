"""
What the tokenizers of all seq2seq models but Marian's have in common: how targets are cut and generated ids decoded.

Knows: a cutter of text into pieces. Does not know: languages, what surrounds the pieces of a source.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from worker.text.translation.piece_cutter import PieceCutter
from worker.text.translation.sentence_pieces import TargetPiece, share_of_characters

_BEFORE_MARKS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceTokenizer:
    """Immutable, so several lanes may share one."""

    cutter: PieceCutter
    eos_id: int
    cleans_spaces: bool = False  # `clean_up_tokenization_spaces`

    def cut_target(self, text: str) -> list[TargetPiece]:
        """The pieces of a target sentence with their ids and spans in the text; without EOS and language."""
        return [TargetPiece(piece.id, piece.start, piece.stop) for piece in self.cutter.cut(text)]

    def unknown_share(self, text: str) -> float:
        """The share of a sentence's characters that the vocabulary lacks."""
        unk_id = self.cutter.unk_id
        unknown = ((piece.start, piece.stop) for piece in self.cutter.cut(text) if piece.id == unk_id)
        return share_of_characters(text, unknown)

    def target_piece(self, piece_id: int) -> str:
        """The text of a target piece, for messages."""
        return self.cutter.piece(piece_id)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated ids. Special ones (languages, EOS, padding, `<unk>`) and those without a piece are
        dropped."""
        text = self.cutter.join(ids)
        return _clean_spaces(text) if self.cleans_spaces else text


def _clean_spaces(text: str) -> str:
    """As `clean_up_tokenization` of transformers (tokenization_utils_base.py)."""
    for mark in _BEFORE_MARKS:
        text = text.replace(mark, mark.replace(" ", ""))
    return text

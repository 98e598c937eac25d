"""The text that new ids add to a prompt's, and whether a stop text is in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_CONTEXT = 8  # tokens of the prompt that are detokenized with the first new ones
_REPLACEMENT = "\ufffd"


class Detokenizer(Protocol):
    """Ids to text, without special tokens."""

    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True)
class ContinuedText:
    """One continuation. New ids are detokenized together with the end of the prompt: alone, a first token may lose
    its space (SentencePiece), and the bytes of a character may lie on both sides."""

    tokenizer: Detokenizer
    prompt: Sequence[int]

    def text(self, ids: Sequence[int]) -> str:
        """The text that these new ids add."""
        return self._after(self.prompt, ids)

    def ends_in(self, ids: Sequence[int], stops: Sequence[str]) -> bool:
        """Whether the last of the new ids completes one of `stops`.

        A token stands for a byte or more, so only the last tokens are looked at: as many as a stop text has bytes.
        """
        for stop in stops:
            tail = len(stop.encode()) + 1
            before = ids[:-tail]
            if stop in self._after(before or self.prompt, ids[-tail:]):
                return True
        return False

    def _after(self, before: Sequence[int], ids: Sequence[int]) -> str:
        context = list(before[-_CONTEXT:])
        base, whole = self.tokenizer.decode(context), self.tokenizer.decode([*context, *ids])
        base = base.rstrip(_REPLACEMENT)  # of a character whose other bytes are among the new ids
        return whole[len(base) :] if whole.startswith(base) else self.tokenizer.decode(ids)

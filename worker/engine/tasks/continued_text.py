"""The text that new ids add to a prompt's, and whether a stop text is in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_CONTEXT = 8  # tokens of the prompt that are detokenized with the first new ones
_REPLACEMENT = "\ufffd"


class Detokenizer(Protocol):
    """Ids to text, without special tokens."""

    def decode(self, ids: Sequence[int]) -> str: ...
    def is_silent(self, token_id: int) -> bool: ...


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

        A token stands for a byte or more, unless it is a special one, so only the last tokens are looked at: as many
        that show as a stop text has bytes.
        """
        for stop in stops:
            tail = self._last(ids, len(stop.encode()) + 1)
            before = ids[: len(ids) - len(tail)]
            if stop in self._after(before or self.prompt, tail):
                return True
        return False

    def _after(self, before: Sequence[int], ids: Sequence[int]) -> str:
        context = self._last(before, _CONTEXT)
        base, whole = self.tokenizer.decode(context), self.tokenizer.decode([*context, *ids])
        # Of a character whose other bytes are among the new ids. The text may have this character, too: it stays.
        while base.endswith(_REPLACEMENT) and not whole.startswith(base):
            base = base[:-1]
        return whole[len(base) :] if whole.startswith(base) else self.tokenizer.decode(ids)

    def _last(self, ids: Sequence[int], count: int) -> Sequence[int]:
        """The last ids, of which `count` show in the text."""
        start = len(ids)
        while start and count:
            start -= 1
            count -= not self.tokenizer.is_silent(ids[start])
        return ids[start:]

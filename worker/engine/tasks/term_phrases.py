"""
The ids with which a model writes the target of a term.

    Regen     ▁Regen                 behind a space, and at the beginning of a sentence
    heavy     ▁heavy, (▁Heavy        with a capital at the beginning alone, where capitals make no difference
    周一       周一, (▁周一             without the sign of a space but at the beginning, in scripts that have none
    regen     ▁regen, regen          also within a word, where the term may be a part of one

Behind a whole word no id follows that goes on with it, such as schirm behind ▁Regen. What the vocabulary cannot write
has no phrase.
"""

import unicodedata
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from jobs.terms.term import Term
from worker.engine.search.required_phrases import Phrase, Phrases
from worker.text.terms.matcher import has_target
from worker.text.terms.words import units
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer
from worker.text.word_alignment import is_spaceless

_WORD_BEFORE = "a "
_SIGN_BEFORE, _WIDE_SIGN_BEFORE = "(", "、"  # what stands behind it begins within a word, or without a space


def phrases_of(
    term: Term, tokenizer: Seq2SeqTokenizer, has_ids: Callable[[Sequence[int]], NDArray[np.bool_]]
) -> Phrases:
    """The phrases of the target and its forms; of two of which one holds the other, the shorter. `has_ids`: which ids
    the model can generate."""
    found = dict.fromkeys(
        phrase
        for target in term.targets
        for phrase in _ways(target, tokenizer, is_whole=term.is_whole, is_cased=term.target_is_cased)
    )
    writable = [
        phrase
        for phrase in found
        if phrase.ids and has_target(term, units(tokenizer.decode(phrase.ids))) and has_ids(phrase.ids).all()
    ]
    return tuple(
        phrase
        for phrase in writable
        if not any(other != phrase and not other.is_first and _holds(phrase, other) for other in writable)
    )


def continuing_ids(tokenizer: Seq2SeqTokenizer) -> tuple[int, ...]:
    """The ids whose text goes on with the word before it: it begins with a letter, a digit or a mark, in a script with
    spaces."""
    return tuple(sorted(token for token, text in tokenizer.target_pieces() if _is_of_word(text[:1])))


def _is_of_word(character: str) -> bool:
    is_space = character in ("", "▁", "Ġ")
    return not is_space and unicodedata.category(character)[0] in "LMN" and not is_spaceless(character)


def _holds(phrase: Phrase, other: Phrase) -> bool:
    """Whether the other counts wherever the phrase does."""
    ids, others = phrase.ids, other.ids
    if other.is_whole:
        return phrase.is_whole and ids[-len(others) :] == others
    return any(ids[at : at + len(others)] == others for at in range(len(ids) - len(others) + 1))


def _ways(text: str, tokenizer: Seq2SeqTokenizer, *, is_whole: bool, is_cased: bool) -> Iterator[Phrase]:
    ends = is_whole and not is_spaceless(text[-1])
    if is_spaceless(text[0]):
        yield Phrase(_behind(_WIDE_SIGN_BEFORE, text, tokenizer), is_whole=ends)
    else:
        yield Phrase(_behind(_WORD_BEFORE, text, tokenizer), is_whole=ends)
        if not is_whole:
            yield Phrase(_behind(_SIGN_BEFORE, text, tokenizer))
    for first in (text,) if is_cased else (text, text[0].upper() + text[1:]):
        yield Phrase(_behind("", first, tokenizer), is_first=True, is_whole=ends)


def _behind(before: str, text: str, tokenizer: Seq2SeqTokenizer) -> tuple[int, ...]:
    """The ids of a text that stands behind another; none where a piece belongs to both."""
    border = len(before.rstrip().encode())  # a space is of the text behind it, or a piece of its own
    pieces = [piece for piece in tokenizer.cut_target(before + text) if piece.stop > border or not before]
    return tuple(piece.id for piece in pieces) if pieces and pieces[0].start >= border else ()

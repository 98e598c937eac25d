"""
Joining the translations of a segment's pieces, then the translations of a document's segments.

Knows: how texts are joined and flagged, by the scripts and punctuation marks of a translation. Does not know: names of
languages, which many models lack; models, tokenizers, the result memory.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from jobs.outcome import AlignedSegment, Alternative, Flag, HypothesisSums, SegmentTranslation, Translation
from worker.text.segments import Span

_HAN_AND_KANA = (
    r"\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u30ff\u3105-\u312f\u31a0-\u31bf"
    r"\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
_THAI_AND_LAO = r"\u0e00-\u0eff"
_TIBETAN_MYANMAR_KHMER = r"\u0f00-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"
# Khmer, Burmese and Tibetan have no spaces between words, but one behind the stop of a sentence.
_SENTENCES_TOUCH = re.compile(f"[{_HAN_AND_KANA}{_THAI_AND_LAO}]")
_WORDS_TOUCH = re.compile(f"[{_HAN_AND_KANA}{_THAI_AND_LAO}{_TIBETAN_MYANMAR_KHMER}]")
_WORD = re.compile(r"[^\W\d_]+")
_LAYOUT = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


_NO_SUMS = HypothesisSums(0.0, 0, truncated=False)


@dataclass(frozen=True, slots=True)
class Combination:
    """One hypothesis for each part of a text, and the sum of their scores."""

    score: float
    texts: tuple[str, ...]
    sums: HypothesisSums = _NO_SUMS  # of all parts, where they have them


def best_combinations(parts: Iterable[SegmentTranslation], n_best: int) -> list[Combination]:
    """The `n_best` choices with the highest sum of scores, best first.

    After each part only the `n_best` choices so far are kept. None of the best is lost by that: scores are added, so
    a better beginning stays better whatever follows.
    """
    best = [Combination(0.0, ())]
    for part in parts:
        longer = [
            Combination(beginning.score + score, (*beginning.texts, text), _added(beginning.sums, sums))
            for beginning in best
            for text, score, sums in zip(part.texts, part.scores, part.sums or repeat(None), strict=False)
        ]
        best = sorted(longer, key=lambda combination: -combination.score)[:n_best]
    return best


def _added(sums: HypothesisSums, more: HypothesisSums | None) -> HypothesisSums:
    if more is None:
        return sums
    return HypothesisSums(
        sums.log_prob + more.log_prob, sums.num_target_tokens + more.num_target_tokens, sums.truncated or more.truncated
    )


def drawn_combinations(parts: Sequence[SegmentTranslation], num_samples: int) -> list[Combination]:
    """The samples of a text, in the order in which they were drawn: sample i of it is sample i of each part. A part
    with fewer texts, such as an imported translation, is the same in all."""
    found = [Combination(0.0, ())] * num_samples
    for part in parts:
        sums = part.sums or [None] * len(part.texts)
        last = len(part.texts) - 1
        found = [
            Combination(
                before.score + part.scores[min(number, last)],
                (*before.texts, part.texts[min(number, last)]),
                _added(before.sums, sums[min(number, last)]),
            )
            for number, before in enumerate(found)
        ]
    return found


def join_pieces(pieces: Sequence[SegmentTranslation], n_best: int, *, are_drawn: bool = False) -> SegmentTranslation:
    """The translation of a segment that was too long for the model and was translated in pieces. `are_drawn`: its
    hypotheses are samples."""
    if len(pieces) == 1:
        return pieces[0]
    combinations = (drawn_combinations if are_drawn else best_combinations)(pieces, n_best)
    return SegmentTranslation(
        texts=tuple(_join(combination.texts) for combination in combinations),
        scores=tuple(combination.score for combination in combinations),
        log_prob=sum(piece.log_prob for piece in pieces),
        num_source_tokens=sum(piece.num_source_tokens for piece in pieces),
        num_target_tokens=sum(piece.num_target_tokens for piece in pieces),
        flags=merge_flags([Flag.SPLIT], *(piece.flags for piece in pieces)),
        sums=tuple(combination.sums for combination in combinations) if all(piece.sums for piece in pieces) else (),
    )


def join_document(
    spans: Sequence[Span],
    segments: Sequence[SegmentTranslation],
    *,
    num_reused: int,
    n_best: int,
    are_drawn: bool = False,
) -> Translation:
    """The document with each sentence replaced by its translation. Line breaks, and what stands before the first
    sentence and behind the last one, are unchanged; the space between two sentences is what their script asks for.

    `segments` are the translations of the translatable spans, in order. `are_drawn`: their hypotheses are samples.
    """
    combinations = (drawn_combinations if are_drawn else best_combinations)(segments, n_best)
    filled = [_fill(spans, combination.texts) for combination in combinations]
    texts = ["".join(piece for pieces in document for piece in pieces) for document in filled]
    passed = [Flag.PASSED_THROUGH] if any(span.letterless for span in spans) else []
    return Translation(
        text=texts[0],
        log_prob=sum(segment.log_prob for segment in segments),
        num_segments=sum(not span.is_gap for span in spans),
        num_reused=num_reused,
        num_source_tokens=sum(segment.num_source_tokens for segment in segments),
        num_target_tokens=sum(segment.num_target_tokens for segment in segments),
        flags=merge_flags(passed, *(segment.flags for segment in segments)),
        alternatives=tuple(
            Alternative(text, combination.score) for text, combination in zip(texts, combinations, strict=True)
        )
        if n_best > 1 and segments
        else (),
        segments=_align(spans, filled[0]),
        unknown_share=_unknown_share([span.text for span in spans if span.translatable], segments),
    )


def merge_flags(*some: Iterable[Flag]) -> tuple[Flag, ...]:
    """All flags, sorted, without duplicates."""
    return tuple(sorted({flag for flags in some for flag in flags}))


def _unknown_share(sentences: Sequence[str], segments: Sequence[SegmentTranslation]) -> float | None:
    """The share of the characters of all sentences, white space aside; None without a sentence."""
    if not any(segment.unknown_share for segment in segments):
        return 0.0 if segments else None
    lengths = [sum(not character.isspace() for character in sentence) for sentence in sentences]
    unknown = sum(length * segment.unknown_share for length, segment in zip(lengths, segments, strict=True))
    return unknown / sum(lengths)


def _align(spans: Sequence[Span], filled: Sequence[tuple[str, str]]) -> tuple[AlignedSegment, ...]:
    """The positions of the translatable spans in the document, and of their replacements in the translation."""
    aligned = []
    source = target = 0
    for span, (space, text) in zip(spans, filled, strict=True):
        target += len(space)
        if span.translatable:
            aligned.append(AlignedSegment(source, source + span.length, target, target + len(text)))
        source += span.length
        target += len(text)
    return tuple(aligned)


def _fill(spans: Sequence[Span], texts: Iterable[str]) -> list[tuple[str, str]]:
    """The document, with `texts` in place of its translatable spans: for each span a space or nothing, and a text."""
    remaining = iter(texts)
    words = [next(remaining) if span.translatable else span.text for span in spans]
    filled = []
    for index, span in enumerate(spans):
        joint, text = "", words[index]
        if span.is_gap and not span.kept and 0 < index < len(spans) - 1:
            text = between_sentences(words[index - 1], words[index + 1], span.text)
        elif not span.is_gap and index and not spans[index - 1].is_gap:
            joint = between_sentences(words[index - 1], text, "")
        filled.append((joint, text))
    return filled


def _join(texts: Iterable[str]) -> str:
    joined = ""
    for text in texts:
        joined += between_pieces(joined, text) + text
    return joined


def between_sentences(left: str, right: str, gap: str) -> str:
    r"""The text between two sentences of a translation. `gap`: the white space between them in the source.

        "有雨。" "有风。" " "    ->  ""        "Rain." "Wind." ""      ->  " "
        "有雨." "“有风。”" " "   ->  ""        "Rain." "Wind." "  "    ->  "  "
        "有雨" "有风" " "        ->  " "       "有雨。" "有风。" "\n"   ->  "\n"

    Line breaks and tabs stay. Chinese, Japanese, Thai and Lao sentences touch if a punctuation mark separates them;
    without a mark, as often in Thai, the space stays. Sentences in other scripts get a space, even if the source has
    none. After a full-width mark there is never a space: its glyph includes it.
    """
    if not left or not right or _LAYOUT.search(gap):
        return gap
    if _is_wide_mark(left[-1]) or _is_wide_mark(right[0]):
        return ""
    touch = _is_written_in(_SENTENCES_TOUCH, left), _is_written_in(_SENTENCES_TOUCH, right)
    if touch[0] and touch[1] is not False and not (_is_of_word(left[-1]) and _is_of_word(right[0])):
        return ""
    return gap.replace("\u3000", " ") or " " if False in touch else gap


def between_pieces(left: str, right: str) -> str:
    """The text between two pieces of one sentence: a space, or nothing if either side is in a script without spaces.
    Two words of another script, or two numbers, never touch."""
    if not left or not right or _is_wide_mark(left[-1]) or _is_wide_mark(right[0]):
        return ""
    if all(_is_of_word(character) and not _WORDS_TOUCH.match(character) for character in (left[-1], right[0])):
        return " "
    return "" if _is_written_in(_WORDS_TOUCH, left) or _is_written_in(_WORDS_TOUCH, right) else " "


def _is_written_in(script: re.Pattern[str], text: str) -> bool | None:
    """Whether most of a text is of the script; None: it has no letter. A character of the script counts as much as a
    word of another one, so `JavaScript入門` is Japanese."""
    others, characters = script.subn(" ", text)
    words = len(_WORD.findall(others))
    return characters >= words if characters or words else None


def _is_wide_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "P" and unicodedata.east_asian_width(character) in "FW"


def _is_of_word(character: str) -> bool:
    """Whether a character is a letter, a vowel sign or a digit."""
    return unicodedata.category(character)[0] in "LMN"

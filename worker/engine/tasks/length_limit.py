"""
A document that has a longest translation, in characters: of the hypotheses that the search found of its sentences,
those that fit.

Characters are those that a reader sees: Unicode code points of the text, placeholders as they stand, but no tags and no
signs of Markdown, and an entity as the one that it means.

Knows: hypotheses as texts with their marks. Does not know: models.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from jobs.outcome import Alternative, Flag, Outcome, SegmentTranslation, Translation
from jobs.text.markup import Markup
from worker.engine.tasks.document_assembly import join_document, merge_flags
from worker.engine.tasks.fitting import best_within, shortest
from worker.text.loops import has_loop
from worker.text.marks.finding import find
from worker.text.marks.mark import Kind, Mark, MarkRules
from worker.text.segments import Span

_OF_ONE_TEXT = frozenset({Flag.TRUNCATED, Flag.REPETITION})
_TAG = re.compile("<[^<>]*>")
_TRIALS = 4  # of a choice whose sentences are joined by other blanks than those of the best


def visible_length(text: str, markup: Markup) -> int:
    """How many characters of a text a reader sees."""
    marks = find(text, MarkRules(markup)) if markup != Markup.NONE else []
    return len(text) - sum(mark.stop - mark.start - _shown(mark, text) for mark in marks)


def _shown(mark: Mark, text: str) -> int:
    match mark.kind:
        case Kind.CHARACTER:
            return len(mark.name)
        case Kind.BLANK | Kind.WRAP:
            return 1
        case Kind.WORD:  # such as code, which stays
            return len(_TAG.sub("", text[mark.start : mark.stop]).strip("`"))
    return 0


def with_hypothesis(found: SegmentTranslation, index: int, plain: str) -> SegmentTranslation:
    """A translation of `plain` with another one of its hypotheses in the first place."""
    if not index:
        return found
    order = [index, *(other for other in range(len(found.texts)) if other != index)]
    sums = found.sums[index]
    flags = [flag for flag in found.flags if flag not in _OF_ONE_TEXT]
    flags += [Flag.TRUNCATED] if sums.truncated else []
    flags += [Flag.REPETITION] if has_loop(found.texts[index], plain) else []
    return replace(
        found,
        texts=tuple(found.texts[other] for other in order),
        scores=tuple(found.scores[other] for other in order),
        sums=tuple(found.sums[other] for other in order),
        log_prob=sums.log_prob,
        num_target_tokens=sums.num_target_tokens,
        flags=merge_flags(flags),
    )


def fitting_choice(
    spans: Sequence[Span], segments: Sequence[SegmentTranslation], limit: int, markup: Markup
) -> list[int] | None:
    """The index of the hypothesis of each sentence: the choice with the highest sum of scores among those whose
    document has at most `limit` characters. None: there is none. `segments` have their marks."""
    lengths = [[visible_length(text, markup) for text in segment.texts] for segment in segments]
    scores = [segment.scores for segment in segments]
    choice: list[int] | None = [max(range(len(some)), key=some.__getitem__) for some in scores]
    room = limit + 1
    for _ in range(_TRIALS):
        if choice is None:
            break
        length = visible_length(_joined(spans, segments, choice), markup)
        if length <= limit:
            return choice
        own = sum(some[index] for some, index in zip(lengths, choice, strict=True))
        # What stands between the sentences depends on them: where this choice has more there, the next one gets less.
        room = min(room - 1, limit - (length - own))
        choice = best_within(lengths, scores, room)
    least = shortest(lengths, scores)
    return least if visible_length(_joined(spans, segments, least), markup) <= limit else None


def shortest_choice(segments: Sequence[SegmentTranslation], markup: Markup) -> list[int]:
    """The index of the shortest hypothesis of each sentence."""
    return shortest(
        [[visible_length(text, markup) for text in segment.texts] for segment in segments],
        [segment.scores for segment in segments],
    )


def with_chosen_first(
    chosen: Translation, segments: Sequence[SegmentTranslation], by_score: Sequence[Alternative], n_best: int
) -> Translation:
    """The translation of the first hypothesis of each segment with the n best: itself, and those with the highest
    scores."""
    if not by_score:
        return chosen
    own = Alternative(chosen.text, sum(segment.scores[0] for segment in segments))
    return replace(chosen, alternatives=(own, *(each for each in by_score if each.text != own.text))[:n_best])


def flag_too_long(outcome: Outcome, limit: int | None, markup: Markup) -> Outcome:
    """The outcome, with a flag where it is a translation with more characters; that of an engine which found one alone
    has none yet."""
    if limit is None or not isinstance(outcome, Translation) or visible_length(outcome.text, markup) <= limit:
        return outcome
    return replace(outcome, flags=merge_flags(outcome.flags, [Flag.TOO_LONG]))


def _joined(spans: Sequence[Span], segments: Sequence[SegmentTranslation], choice: Sequence[int]) -> str:
    first = [
        replace(segment, texts=(segment.texts[index],), scores=(0.0,))
        for segment, index in zip(segments, choice, strict=True)
    ]
    return join_document(spans, first, num_reused=0, n_best=1).text


def only_first(segment: SegmentTranslation) -> SegmentTranslation:
    """A translation with its first hypothesis alone."""
    return replace(segment, texts=segment.texts[:1], scores=segment.scores[:1], sums=segment.sums[:1])

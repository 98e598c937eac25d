"""
The alignments of documents: of the words of each sentence with those of its translation. Of texts with marks the model
reads both without them.

Knows: where the sentences of a document and its marks are. Does not know: models, how words are aligned.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace

from jobs.outcome import Outcome, SegmentWords, Translation
from worker.engine.tasks.document_sentences import CutDocument
from worker.engine.tasks.marked_translation import Alignments
from worker.text.marks.bare_text import BareText, bare_text, marks_of, with_marks
from worker.text.marks.mark import Mark, MarkRules
from worker.text.word_alignment import Alignment

TextPair = tuple[str, str]  # a sentence and its translation
Align = Callable[[Sequence[TextPair]], Sequence[Alignment | None]]


def with_alignments(
    texts: Sequence[str],
    documents: Sequence[CutDocument],
    outcomes: Sequence[Outcome],
    rules: MarkRules,
    known: Alignments,
    align: Align,
) -> list[Outcome]:
    """The outcomes of `texts`, translations with their alignments. Pairs that are not `known` are aligned, equal ones
    of all documents once."""
    bare = [
        _bare_pairs(text, document, outcome, rules) if isinstance(outcome, Translation) else []
        for text, document, outcome in zip(texts, documents, outcomes, strict=True)
    ]
    asked = list({_read(pair): None for pairs in bare for pair in pairs if _read(pair) not in known})
    aligned = {**known, **dict(zip(asked, align(asked), strict=True))}
    return [
        replace(outcome, alignments=tuple(_words(*pair, aligned[_read(pair)]) for pair in pairs))
        if isinstance(outcome, Translation)
        else outcome
        for outcome, pairs in zip(outcomes, bare, strict=True)
    ]


def _bare_pairs(
    text: str, document: CutDocument, translation: Translation, rules: MarkRules
) -> list[tuple[BareText, BareText]]:
    """Each sentence and its translation, without marks."""
    sides = list(zip((text, translation.text), marks_of(text, translation.text, rules), strict=True))
    pairs = []
    for segment, sentence in zip(translation.segments, document.sentences, strict=True):
        stood_in = sentence.marked.stood_in if sentence.marked is not None else ()
        standing = [(word.text, word.form) for word in stood_in], [(word.text, word.written) for word in stood_in]
        spans = segment[:2], segment[2:]
        source, target = (
            bare_text(whole, start, stop, _within(marks, start, stop), words)
            for (whole, marks), (start, stop), words in zip(sides, spans, standing, strict=True)
        )
        pairs.append((source, target))
    return pairs


def _within(marks: Sequence[Mark], start: int, stop: int) -> Sequence[Mark]:
    first, end = (bisect_left(marks, place, key=lambda mark: mark.start) for place in (start, stop))
    return marks[first:end]


def _read(pair: tuple[BareText, BareText]) -> TextPair:
    return pair[0].text, pair[1].text


def _words(source: BareText, target: BareText, alignment: Alignment | None) -> SegmentWords | None:
    return None if alignment is None else SegmentWords(*with_marks(source, target, alignment))

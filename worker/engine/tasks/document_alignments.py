"""
The alignments of documents: of the words of each sentence with those of its translation.

Knows: where the sentences of a document are. Does not know: models, how words are aligned.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jobs.outcome import AlignedSegment, Outcome, SegmentWords, Translation
from worker.text.word_alignment import Alignment, Spans

TextPair = tuple[str, str]  # a sentence and its translation
Align = Callable[[Sequence[TextPair]], Sequence[Alignment | None]]


def with_alignments(texts: Sequence[str], outcomes: Sequence[Outcome], align: Align) -> list[Outcome]:
    """The outcomes of `texts`, translations with their alignments. Equal pairs of all documents are aligned once."""
    pairs = {
        _pair(text, outcome, segment): None
        for text, outcome in zip(texts, outcomes, strict=True)
        if isinstance(outcome, Translation)
        for segment in outcome.segments
    }
    aligned = dict(zip(pairs, align(list(pairs)), strict=True))
    return [
        replace(
            outcome,
            alignments=tuple(
                _in_document(segment, aligned[_pair(text, outcome, segment)]) for segment in outcome.segments
            ),
        )
        if isinstance(outcome, Translation)
        else outcome
        for text, outcome in zip(texts, outcomes, strict=True)
    ]


def _pair(text: str, translation: Translation, segment: AlignedSegment) -> TextPair:
    source = text[segment.source_start : segment.source_stop]
    return source, translation.text[segment.target_start : segment.target_stop]


def _in_document(segment: AlignedSegment, alignment: Alignment | None) -> SegmentWords | None:
    if alignment is None:
        return None
    source = _moved(alignment.source, segment.source_start)
    return SegmentWords(source, _moved(alignment.target, segment.target_start), alignment.links)


def _moved(spans: Spans, offset: int) -> Spans:
    return tuple((start + offset, stop + offset) for start, stop in spans)

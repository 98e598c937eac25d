"""The translation of a sentence with the marks of that sentence in it, and alignments through two models."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from jobs.outcome import Flag, SegmentTranslation
from worker.engine.tasks.document_assembly import merge_flags
from worker.text.marks.check import lost_numbers
from worker.text.marks.marked_text import MarkedSentence
from worker.text.marks.placement import put_back
from worker.text.word_alignment import Alignment

# By a plain sentence and its translation; a pair without an alignment may be missing.
Alignments = Mapping[tuple[str, str], Alignment | None]
NONE_ALIGNED: Alignments = MappingProxyType({})


def with_marks(
    found: SegmentTranslation, plain: str, marked: MarkedSentence | None, alignments: Alignments
) -> SegmentTranslation:
    """A translation of `plain` with the marks in each of its texts, and the flags that follow from its first text."""
    flags = [Flag.NUMBER_CHANGED] if lost_numbers(plain, found.texts[0]) else []
    if marked is None:
        return replace(found, flags=merge_flags(found.flags, flags)) if flags else found
    restored = [put_back(marked, text, alignments.get((plain, text))) for text in found.texts]
    return replace(
        found, texts=tuple(text for text, _flags in restored), flags=merge_flags(found.flags, flags, restored[0][1])
    )


def composed(first: Alignment | None, second: Alignment | None) -> Alignment | None:
    """The alignment of a sentence with the translation of its translation; None where one of the two is missing."""
    if first is None or second is None or first.target != second.source:
        return None
    behind: dict[int, list[int]] = {}
    for middle, target in second.links:
        behind.setdefault(middle, []).append(target)
    links = {(source, target) for source, middle in first.links for target in behind.get(middle, ())}
    weights = None
    if first.weights is not None and second.weights is not None:
        weights = second.weights @ first.weights
    return Alignment(first.source, second.target, tuple(sorted(links)), weights)

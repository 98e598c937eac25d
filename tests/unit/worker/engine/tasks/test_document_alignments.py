"""The alignments of documents, from those of their sentences."""

from collections.abc import Sequence

from jobs.outcome import AlignedSegment, Failed, SegmentWords, Translation
from worker.engine.tasks.document_alignments import TextPair, with_alignments
from worker.text.word_alignment import Alignment, words


def translation(text: str, *segments: tuple[int, int, int, int]) -> Translation:
    return Translation(text, -1.0, len(segments), 0, 1, 1, segments=tuple(AlignedSegment(*one) for one in segments))


class FirstWords:
    """Links the first words of both sides; has none for a sentence with a `!`."""

    def __init__(self) -> None:
        self.asked: list[TextPair] = []

    def __call__(self, pairs: Sequence[TextPair]) -> list[Alignment | None]:
        self.asked += pairs
        return [
            None if "!" in source else Alignment(words(source), words(target), ((0, 0),)) for source, target in pairs
        ]


def test_words_are_at_their_places_in_the_document() -> None:
    (found,) = with_alignments(
        ["- Hi you. Bye!"], [translation("- 你好。再见!", (2, 9, 2, 5), (10, 14, 5, 8))], FirstWords()
    )

    assert isinstance(found, Translation)
    assert found.alignments == (SegmentWords(((2, 4), (5, 8)), ((2, 3), (3, 4)), ((0, 0),)), None)


def test_equal_pairs_are_aligned_once_and_other_outcomes_are_as_they_were() -> None:
    align, failed = FirstWords(), Failed("non-finite", "no")
    empty = translation("  ")

    found = with_alignments(
        ["Hi. Hi.", "Hi.", "no", "  "],
        [translation("好。好。", (0, 3, 0, 2), (4, 7, 2, 4)), translation("好。", (0, 3, 0, 2)), failed, empty],
        align,
    )

    assert align.asked == [("Hi.", "好。")]
    assert found[2:] == [failed, empty]

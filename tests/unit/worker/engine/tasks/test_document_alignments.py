"""The alignments of documents, from those of their sentences."""

from collections.abc import Sequence

import pytest

from jobs.outcome import AlignedSegment, Failed, Outcome, SegmentWords, Translation
from jobs.tasks.translate import Placeholders, TranslateOptions
from jobs.text.markup import Markup
from worker.engine.tasks.document_alignments import Align, TextPair, with_alignments
from worker.engine.tasks.document_sentences import CutTexts, rules_of
from worker.engine.tasks.marked_translation import NONE_ALIGNED, Alignments
from worker.text.marks.known_words import NO_STAND_INS, StandIn, StandIns
from worker.text.word_alignment import Alignment, words

NAMES = (StandIn("Anna", "安娜"), StandIn("Bob", "鲍勃"))
PLAIN = TranslateOptions(source_language="en")
HTML = TranslateOptions(source_language="en", markup=Markup.HTML, placeholders=Placeholders.AUTO)


def translation(text: str, *segments: tuple[int, int, int, int]) -> Translation:
    return Translation(text, -1.0, len(segments), 0, 1, 1, segments=tuple(AlignedSegment(*one) for one in segments))


class EachWord:
    """Links the words of both sides that have the same number."""

    def __init__(self) -> None:
        self.asked: list[TextPair] = []

    def __call__(self, pairs: Sequence[TextPair]) -> list[Alignment | None]:
        self.asked += pairs
        return [
            Alignment(words(source), words(target), tuple((i, i) for i in range(min(map(len, map(words, pair))))))
            for pair in pairs
            for source, target in [pair]
        ]


class FirstWords:
    """Links the first words of both sides; has none for a sentence with a `!`."""

    def __init__(self) -> None:
        self.asked: list[TextPair] = []

    def __call__(self, pairs: Sequence[TextPair]) -> list[Alignment | None]:
        self.asked += pairs
        return [
            None if "!" in source else Alignment(words(source), words(target), ((0, 0),)) for source, target in pairs
        ]


def aligned(
    texts: Sequence[str],
    outcomes: Sequence[Outcome],
    align: Align,
    options: TranslateOptions = PLAIN,
    known: Alignments = NONE_ALIGNED,
    stand_ins: StandIns = NO_STAND_INS,
) -> list[Outcome]:
    cut = CutTexts.of(texts, options).standing_in(stand_ins, (), are_shared=True)
    return with_alignments(texts, cut.documents, outcomes, rules_of(options), known, align)


def seen(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [text[start:stop] for start, stop in spans]


def test_words_are_at_their_places_in_the_document() -> None:
    (found,) = aligned(["- Hi you. Bye!"], [translation("- 你好。再见!", (2, 9, 2, 5), (10, 14, 5, 8))], FirstWords())

    assert isinstance(found, Translation)
    assert found.alignments == (SegmentWords(((2, 4), (5, 8)), ((2, 3), (3, 4)), ((0, 0),)), None)


def test_equal_pairs_are_aligned_once_and_other_outcomes_are_as_they_were() -> None:
    align, failed = FirstWords(), Failed("non-finite", "no")
    empty = translation("  ")

    found = aligned(
        ["Hi. Hi.", "Hi.", "no", "  "],
        [translation("好。好。", (0, 3, 0, 2), (4, 7, 2, 4)), translation("好。", (0, 3, 0, 2)), failed, empty],
        align,
    )

    assert align.asked == [("Hi.", "好。")]
    assert found[2:] == [failed, empty]


@pytest.mark.parametrize("as_document", [False, True])
def test_words_of_marked_texts_are_aligned_without_the_marks(as_document: bool) -> None:
    before = "<p>No.</p>" if as_document else ""
    text = f"{before}Rain &amp; <b>w<i>i</i>nd</b> in <a href='x y'>Upton</a>&nbsp;now, <!-- or not --> yes"
    target = f"{before}<a href='x y'>Upton</a>:&nbsp;<b>W<i>i</i>nd</b> &amp; Regen, <!-- or not --> ja"
    outcome = translation(target, *[(3, 6, 3, 6)] * as_document, (len(before), len(text), len(before), len(target)))
    align = EachWord()

    (found,) = aligned([text], [outcome], align, HTML)

    assert isinstance(found, Translation)
    pair = found.alignments[-1]
    assert pair is not None
    assert align.asked[-1] == ("Rain & wind in Upton now, yes", "Upton: Wind & Regen, ja")
    assert seen(text, pair.source) == ["Rain", "w<i>i</i>nd", "in", "Upton", "now", "yes"]
    assert seen(target, pair.target) == ["Upton", "W<i>i</i>nd", "Regen", "ja"]
    assert pair.links == ((0, 0), (1, 1), (2, 2), (3, 3))


@pytest.mark.parametrize("stand_ins", [NO_STAND_INS, StandIns(True, NAMES)])
def test_a_placeholder_is_a_word_that_belongs_to_itself(stand_ins: StandIns) -> None:
    text, target = "In {town} <b>{n}</b> came, {town}.", "{town}有<b>{n}</b>，{town}来。"
    align = EachWord()

    (found,) = aligned([text], [translation(target, (0, len(text), 0, len(target)))], align, HTML, stand_ins=stand_ins)

    assert isinstance(found, Translation)
    (pair,) = found.alignments
    assert pair is not None
    assert align.asked == [
        ("In Anna 17 came, Bob.", "安娜有17，鲍勃来。") if stand_ins else ("In came,.", "有，来。"),
    ]
    links = {(seen(text, [pair.source[i]])[0], seen(target, [pair.target[j]])[0]) for i, j in pair.links}
    assert {("{town}", "{town}"), ("{n}", "{n}")} <= links
    assert not [link for link in links if "{" in "".join(link) and link[0] != link[1]]
    assert seen(text, pair.source) == ["In", "{town}", "{n}", "came", "{town}"]
    assert seen(target, pair.target) == ["{town}", "有", "{n}", "{town}", "来"]


def test_what_only_a_translation_has_is_text() -> None:
    text, target = "See <b>it</b>", "Siehe <b>www.a.de</b>"
    align = EachWord()

    aligned([text], [translation(target, (0, len(text), 0, len(target)))], align, HTML)

    assert align.asked == [("See it", "Siehe www.a.de")]


def test_pairs_that_were_aligned_for_their_marks_are_not_again() -> None:
    text, target = "See <b>it</b>", "Sieh <b>es</b>"
    known = {("See it", "Sieh es"): Alignment(words("See it"), words("Sieh es"), ((1, 1),))}

    (found,) = aligned([text], [translation(target, (0, len(text), 0, len(target)))], FirstWords(), HTML, known)

    assert isinstance(found, Translation)
    assert found.alignments == (SegmentWords(((0, 3), (7, 9)), ((0, 4), (8, 10)), ((1, 1),)),)

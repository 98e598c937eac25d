"""Marks stand in a translation exactly once and nested, whatever the alignment; the places that an alignment gives."""

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.outcome import Flag
from jobs.tasks.translate import Segmentation
from jobs.text.markup import Markup
from worker.text.marks.check import compare, lost_numbers, lost_placeholders
from worker.text.marks.finding import find
from worker.text.marks.mark import Kind, Mark, MarkRules
from worker.text.marks.marked_text import MarkedSentence, marked_spans
from worker.text.marks.placement import put_back
from worker.text.word_alignment import Alignment, words

HTML = MarkRules.of(Markup.HTML, True, [])
MARKDOWN = MarkRules.of(Markup.MD, True, [])
PIECES = [
    *(
        "<b>",
        "</b>",
        "<i>",
        "</i>",
        "<br>",
        "<x/>",
        "<0/>",
        "{name}",
        "%s",
        "&amp;",
        "&nbsp;",
        "\u00a0",
        "&shy;",
        "&lt;",
        "a",
        "Wind",
        "雨",
    ),
    *(
        "Rain",
        "falls",
        " ",
        "  ",
        ". ",
        ", ",
        "!",
        "。",
        "\n",
        "(",
        "https://a.b/c.",
        "`",
        "*",
        "[",
        "](u)",
        "<code>1</code>",
    ),
    *("{n, plural, one {# file} other {# files}}", "{", "}", "<", "&", "12", "\\n", "<!--", "-->", "# "),
]
RULES = st.builds(MarkRules, st.sampled_from(Markup), st.booleans())
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=30)


def sentences(text: str, rules: MarkRules = HTML) -> list[MarkedSentence]:
    return [marked for _span, marked in marked_spans(text, "en", rules) if marked is not None]


def sentence(text: str, rules: MarkRules = HTML) -> MarkedSentence:
    (only,) = sentences(text, rules)
    return only


def aligned(source: str, target: str, *links: tuple[int, int]) -> Alignment:
    return Alignment(words(source), words(target), links)


def placed(text: str, target: str, *links: tuple[int, int], rules: MarkRules = HTML) -> str:
    marked = sentence(text, rules)
    return put_back(marked, target, aligned(marked.plain, target, *links))[0]


@given(TEXTS, RULES, st.sampled_from(Segmentation))
def test_a_text_is_its_spans_and_an_unchanged_sentence_gives_its_bytes_back(
    text: str, rules: MarkRules, unit: Segmentation
) -> None:
    spans = marked_spans(text, "en", rules, unit)

    assert "".join(span.text if span.written is None else span.written for span, _marked in spans) == text
    for span, marked in spans:
        assert marked is None or put_back(marked, marked.plain, None) == (span.text, ())


@pytest.mark.parametrize(
    ("unit", "plain"),
    [
        (Segmentation.SENTENCES, ["Go to the harbour now.", "Turn left there."]),
        (Segmentation.PARAGRAPHS, ["Go to the harbour now.", "Turn left there."]),
        (Segmentation.LINES, ["Go to the", "harbour now.", "Turn", "left", "there."]),
    ],
)
def test_a_wrapped_sentence_of_html_is_read_as_one(unit: Segmentation, plain: list[str]) -> None:
    text = "<p>\n  Go to <b>the\r\n\tharbour</b> now.\n  Turn\n\n  <i>left\n there.</i>\n</p>"

    spans = marked_spans(text, "en", HTML, unit)

    assert [span.text if marked is None else marked.plain for span, marked in spans if span.translatable] == plain


def test_the_blocks_of_a_page_stay_apart_however_they_are_wrapped() -> None:
    assert [marked.plain for marked in sentences("<p>Go\nto <b>it</b></p>\n<p>Stop\nnow</p>")] == [
        "Go to it",
        "Stop now",
    ]


def test_a_translation_of_wrapped_lines_is_one_line() -> None:
    assert placed("<p>\n  Rain in <b>the\n  north</b>\n</p>", "Regen im Norden", (0, 0), (3, 2)) == (
        "Regen im <b>Norden</b>"
    )


@st.composite
def marked_texts(draw: st.DrawFn) -> str:
    """Words, marks alone and nested pairs, each mark another."""
    parts, opened = [], []
    for number in range(draw(st.integers(1, 20))):
        match draw(st.sampled_from(["word", "alone", "name", "open", "close", "stop"])):
            case "word":
                parts.append(draw(st.sampled_from([" rain", "wind ", " a, b", "雨"])))
            case "alone":
                parts.append(f"<x id='{number}'/>")
            case "name":
                parts.append(f"{{n{number}}}")
            case "open":
                opened.append(f"t{number}")
                parts.append(f"<{opened[-1]}>")
            case "close" if opened:
                parts.append(f"</{opened.pop()}>")
            case _:
                parts.append(draw(st.sampled_from([". ", ".", "\n"])))
    return "".join([*parts, *(f"</{name}>" for name in reversed(opened))])


@given(marked_texts(), st.lists(st.text(alphabet="ab .雨", max_size=20), min_size=20, max_size=20), st.data())
def test_every_mark_is_there_once_and_nested_whatever_the_alignment(
    text: str, targets: list[str], data: st.DataObject
) -> None:
    found = ""
    for (span, marked), target in zip(marked_spans(text, "en", HTML), targets * 9, strict=False):
        alignment = None
        if marked is not None and words(marked.plain) and words(target) and data.draw(st.booleans()):
            sizes = len(words(marked.plain)), len(words(target))
            links = data.draw(st.sets(st.tuples(*(st.integers(0, size - 1) for size in sizes))))
            alignment = aligned(marked.plain, target, *sorted(links))
        found += span.text if marked is None else put_back(marked, target, alignment)[0]

    signs = re.compile(r"<(/?)(t[0-9]+)>|<x[^>]*>|\{n[0-9]+\}")
    assert sorted(map(re.Match.group, signs.finditer(found))) == sorted(map(re.Match.group, signs.finditer(text)))
    opened: list[str] = []
    for sign in signs.finditer(found):
        if sign[2] and sign[1]:
            assert opened.pop() == sign[2]
        elif sign[2]:
            opened.append(sign[2])


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Hello {name}, welcome.", "Hello, welcome."),
        ("{name} is here", "is here"),
        ("Open {file}.", "Open."),
        ("a <b>bold</b> word", "a bold word"),
        ("one <x/> two", "one two"),
        ("R&amp;D of 10&nbsp;km {x}", "R&D of 10 km"),
        ("See <b>{x}</b> now", "See now"),
        ("From {a} {b} {c} on", "From on"),
    ],
)
def test_a_plain_sentence_has_the_blanks_that_it_would_have_without_marks(text: str, plain: str) -> None:
    assert sentence(text).plain == plain


def test_marks_do_not_disturb_where_sentences_end() -> None:
    text = "See {x}. {y} is good.<br/>Go to https://a.b. <b>Stop here. Go on.</b>"

    assert [span.text for span, _marked in marked_spans(text, "en", HTML) if span.translatable] == [
        *("See {x}.", "{y} is good.", "Go to https://a.b.", "Stop here.", "Go on."),
    ]


def test_a_text_of_marks_alone_is_not_for_the_model() -> None:
    assert not any(span.translatable for span, _marked in marked_spans("<b>{name}</b> https://a.b", "en", HTML))


def test_the_branches_of_a_plural_are_sentences_and_its_frame_is_none() -> None:
    text = "{n, plural, =0 {No files} one {# file of {m, select, a {Ann} other {all}}} other {# files}}"

    spans = marked_spans(text, "en", HTML)

    assert [span.text for span, _marked in spans if span.translatable] == [
        *("No files", "# file of", "Ann", "all", "# files"),
    ]


def test_a_mark_goes_beside_the_translation_of_its_neighbour() -> None:
    assert placed("Hello {name}, welcome.", "你好，欢迎。", (0, 0), (0, 1), (1, 2), (1, 3)) == "你好{name}，欢迎。"
    assert placed("Delete {n} files.", "Dateien löschen.", (0, 1), (1, 0)) == "{n} Dateien löschen."
    assert placed("Open {file}.", "Bitte öffnen.", (0, 1)) == "Bitte öffnen {file}."
    assert placed("in 10&nbsp;km now", "10 km jetzt", (1, 0), (2, 1), (3, 2)) == "10&nbsp;km jetzt"


@pytest.mark.parametrize("blank", ["&nbsp;", "&#160;", "\u00a0", "\u202f"])
@pytest.mark.parametrize("rules", [HTML, MARKDOWN])
def test_a_no_break_space_goes_to_its_number(blank: str, rules: MarkRules) -> None:
    links = (0, 0), (0, 2), (1, 2)  # of `10` with the last word, too

    assert placed(f"10{blank}km far", "10公里", *links, rules=rules) == f"10{blank}公里"
    assert placed(f"See § 5 and Fig.{blank}3 now", "jetzt Bild 3 und § 5", (5, 0), rules=rules) == (
        f"jetzt Bild{blank}3 und § 5"
    )


def test_a_no_break_space_whose_words_are_everywhere_is_flagged() -> None:
    marked = sentence("one two&nbsp;three four")
    even = np.full((4, 4), 0.25)

    found, flags = put_back(marked, "a b c d", Alignment(words(marked.plain), words("a b c d"), (), even))

    assert (found.count("&nbsp;"), flags) == (1, (Flag.MARKUP_MOVED,))


@pytest.mark.parametrize("text", ["Vraiment\u00a0?", "«\u00a0Non\u202f»", "1\u00a0000 km", "20\u202f000"])
def test_a_no_break_space_that_only_one_language_writes_is_text(text: str) -> None:
    assert find(text, HTML) == []


@pytest.mark.parametrize("rules", [HTML, MARKDOWN])
def test_what_cannot_be_seen_comes_back_once(rules: MarkRules) -> None:
    found = placed(
        "The steam&shy;boat of &zwj;Ann&#x200b; sails.", "安的汽船启航。", (1, 2), (1, 3), (3, 0), rules=rules
    )

    assert [found.count(each) for each in ("&shy;", "&zwj;", "&#x200b;")] == [1, 1, 1]


def test_entities_of_markdown_are_read_as_what_they_mean() -> None:
    marked = sentence("R&amp;D &mdash; a &lt; b &#42;c", MARKDOWN)

    assert marked.plain == "R&D — a < b c"
    assert put_back(marked, "F&E – a < b c", None)[0] == "F&amp;E – a &lt; b &#42;c"
    assert find("AT&T &nosuchname; `&nbsp;`", MARKDOWN) == [Mark(18, 26, Kind.WORD)]
    assert sentences("a < b & c", MARKDOWN) == []


def test_a_pair_goes_around_the_words_that_its_words_became() -> None:
    text = "I saw the <b>red house</b> there."

    assert placed(text, "Dort sah ich das rote Haus.", (0, 2), (1, 1), (2, 3), (3, 4), (4, 5), (5, 0)) == (
        "Dort sah ich das <b>rote Haus</b>."
    )
    assert placed("I <b>said <i>no</i></b> today", "Heute nein sagte ich", (0, 3), (1, 2), (2, 1), (3, 0)) == (
        "Heute <b><i>nein</i> sagte</b> ich"
    )


def test_a_pair_with_punctuation_takes_that_of_the_translation() -> None:
    assert placed('He said <b>"Hello!"</b> to me', "Er sagte „Hallo!“ zu mir", *((i, i) for i in range(5))) == (
        "Er sagte <b>„Hallo!“</b> zu mir"
    )


@pytest.mark.parametrize(
    ("text", "target", "placed", "is_moved"),
    [
        ("Go<b>,</b> now", "走，现在", "走<b>，</b>现在", False),
        ("Wait<b>!</b> Go", "等。去", "等<b>。</b>去", False),
        ("Go <b>-</b> now", "走 现在", "走<b></b> 现在", True),
    ],
)
def test_a_pair_around_punctuation_goes_around_that_of_the_translation_or_stays_empty(
    text: str, target: str, placed: str, is_moved: bool
) -> None:
    (marked,) = marked_spans(text, "en", HTML, Segmentation.NONE)[0][1:]
    assert marked is not None

    found, flags = put_back(marked, target, aligned(marked.plain, target, (0, 0), (1, 1)))

    assert (found, Flag.MARKUP_MOVED in flags) == (placed, is_moved)


def test_a_pair_that_takes_words_of_others_is_flagged() -> None:
    marked = sentence("one <b>two three</b> four")
    target = "zwei vier drei eins"

    found, flags = put_back(marked, target, aligned(marked.plain, target, (0, 3), (1, 0), (2, 2), (3, 1)))

    assert flags == (Flag.MARKUP_MOVED,)
    assert found.count("<b>") == 1


def test_a_mark_alone_whose_word_is_everywhere_is_flagged() -> None:
    marked = sentence("one two <x/>three four")
    source, target = words(marked.plain), words("a b c d")
    even, clear = np.full((4, 4), 0.25), np.eye(4)

    assert put_back(marked, "a b c d", Alignment(source, target, (), even))[1] == (Flag.MARKUP_MOVED,)
    assert put_back(marked, "a b c d", Alignment(source, target, (), clear)) == ("a b <x/>c d", ())


def test_a_mark_alone_leaves_a_number_and_a_letter_beside_each_other() -> None:
    assert placed("at 111 <x/>km", "每小时111公里", (0, 0), (1, 3), (2, 4), (2, 5)) == "每小时111<x/>公里"


def test_a_pair_over_two_sentences_stays_nested() -> None:
    first, second = sentences("Take <b>one. Leave two</b> here.")

    assert put_back(first, "Eins nehmen.", aligned(first.plain, "Eins nehmen.", (0, 1), (1, 0)))[0] == "<b>Eins nehmen."
    assert put_back(second, "Hier zwei lassen.", None)[0].count("</b>") == 1


def test_letters_that_markup_gives_a_meaning_are_written_as_entities() -> None:
    assert placed("Ask R&amp;D if a &lt; b.", "F&E fragen, ob a < b.") == "F&amp;E fragen, ob a &lt; b."


def test_without_an_alignment_order_and_length_decide_and_the_flag_says_so() -> None:
    found, flags = put_back(sentence("one two {x} three four"), "eins zwei drei vier", None)

    assert (found, flags) == ("eins zwei {x} drei vier", (Flag.MARKUP_MOVED,))


def test_what_is_lost_or_torn_is_flagged() -> None:
    assert compare("{a} <b>x</b> 1,234.5", "{a} <b>y</b> 1.234,5", HTML) == ()
    assert compare("{a} and {b}", "{a} {a}", HTML) == (Flag.PLACEHOLDER_LOST,)
    assert compare("<b>x</b>", "</b>x<b>", HTML) == (Flag.MARKUP_MOVED,)
    assert compare("3 and 4", "3", HTML) == (Flag.NUMBER_CHANGED,)


@pytest.mark.parametrize(
    ("source", "target"), [("1,000 km", "1 000 km"), ("3.5", "3,5"), ("12", "١٢"), ("in 2020 300", "2020 300")]
)
def test_numbers_are_equal_in_the_digits_and_separators_of_any_language(source: str, target: str) -> None:
    assert not lost_numbers(source, target)


@pytest.mark.parametrize("piece", ["<b>", "<code>", "<!--", "{a, plural, other {", "`", "<a b='", "[", "&a", "</b>"])
@pytest.mark.parametrize("markup", [Markup.HTML, Markup.MD])
def test_what_never_closes_takes_linear_time(piece: str, markup: Markup) -> None:
    begun = time.process_time()
    find(piece * 20_000, MarkRules(markup, True))

    assert time.process_time() - begun < 4


def test_deep_nesting_in_a_sentence_takes_linear_time() -> None:
    marked = sentence("go " + "<b>" * 20_000 + "on" + "</b>" * 20_000 + " now", MarkRules(Markup.HTML))

    found, _flags = put_back(marked, "jetzt weiter", aligned(marked.plain, "jetzt weiter", (1, 1)))

    assert (found.count("<b>"), found.count("</b>")) == (20_000, 20_000)


@pytest.mark.parametrize(
    ("source", "target", "is_lost"),
    [
        ("Rain on {name}.", "{name}下雨。", False),
        ("{a} and {a}", "{a}和", True),
        ("See https://a.org/x.", "见 https://a.org/y。", True),
        ("100 % of {x", "100 %", False),
    ],
)
def test_a_placeholder_that_is_lost_is_noticed(source: str, target: str, is_lost: bool) -> None:
    assert lost_placeholders(source, target) == is_lost

"""Words that stand in for placeholders: the sentence that the model reads, and the translation with the marks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.outcome import Flag
from jobs.text.markup import Markup
from worker.text.marks.known_words import NO_STAND_INS, StandIn, StandIns
from worker.text.marks.mark import MarkRules
from worker.text.marks.marked_text import MarkedSentence, marked_spans
from worker.text.marks.placement import put_back
from worker.text.marks.stand_ins import NUMBERS, Attempt, place_of, survivors
from worker.text.word_alignment import Alignment, words

HTML = MarkRules.of(Markup.HTML, True, [])
KNOWN = StandIns(
    numbers=True,
    names=(StandIn("London", "伦敦"), StandIn("Anna", "安娜")),
    days=(StandIn("Monday", "周一"), StandIn("Friday", "周五")),
)


def sentence(text: str) -> MarkedSentence:
    (only,) = [marked for _span, marked in marked_spans(text, "en", HTML) if marked is not None]
    return only


def first(text: str, known: StandIns = KNOWN) -> Attempt:
    attempt = Attempt.first(sentence(text), known)
    assert attempt is not None
    return attempt


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Open {file}.", "Open London."),
        ("{name} is here", "London is here"),
        ("Winds of {n} km/h", "Winds of 17 km/h"),
        ("From {a} {b} on", "From London Anna on"),
        ("Take 17 of {count} files", "Take 17 of 58 files"),
        ("in <b>{n} km</b> now", "in 17 km now"),
        ("Open <x/>{file}<x/>, then go", "Open London, then go"),
        ("go {n}<x/> far", "go 17 far"),
        ("See <b>{x}</b> now", "See London now"),
        ("Use file{n}.txt or so", "Use file17.txt or so"),
    ],
)
def test_a_stand_in_has_the_blanks_of_its_placeholder_and_is_nothing_else_in_the_sentence(
    text: str, plain: str
) -> None:
    assert first(text).sentence.plain == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("at {speed} now", "at 17 now"),
        ("{maxSpeed} or {wind_speed}", "17 or 58"),
        ("see <b>{count}</b> files", "see 17 files"),
        ("see <b>%d</b> files", "see 17 files"),
        ("winds of {x1} km/h", "winds of 17 km/h"),
        ("about {value}mm of rain", "about 17mm of rain"),
        ("a {chance}% chance", "a 17% chance"),
        ("page {at} of 92", "page 17 of 92"),
        ("from {low} to 43 files", "from 17 to 43 files"),
        ("1/{all} are here", "1/17 are here"),
        ("at {time} or {start_time}", "at 12:34 or 08:15"),
        ("in {year} again", "in 1017 again"),
        ("on {day} or {dueDate}", "on Monday or Friday"),
        ("Monday or {weekday}, {date}", "Monday or Friday, 17"),
        ("{update} is here", "London is here"),
        ("ask {user} to go", "ask London to go"),
    ],
)
def test_the_name_of_a_placeholder_or_what_is_beside_it_says_what_it_is(text: str, plain: str) -> None:
    assert first(text).sentence.plain == plain


def test_a_placeholder_is_where_its_stand_in_is() -> None:
    assert put_back(first("{n} km to {town}").sentence, "到伦敦17公里 & so", None)[0] == "到{town}{n}公里 &amp; so"


def test_a_pair_goes_around_its_placeholder_whatever_else_is_aligned() -> None:
    marked = first("Drive <b>{n} km</b> to Rome").sentence
    target = "Nach Rom 17 km fahren"
    alignment = Alignment(words(marked.plain), words(target), ((0, 2), (1, 0), (2, 3), (3, 0), (4, 1)))

    assert put_back(marked, target, alignment) == ("Nach Rom <b>{n} km</b> fahren", ())


def test_a_placeholder_that_left_its_pair_is_flagged() -> None:
    marked = first("Drive <b>far {n} km</b> to Rome").sentence
    target = "17 fahren nach Rom weit km"
    alignment = Alignment(words(marked.plain), words(target), ((0, 1), (1, 4), (3, 5), (4, 2), (5, 3)))

    assert put_back(marked, target, alignment) == ("{n} fahren nach Rom <b>weit km</b>", (Flag.MARKUP_MOVED,))


def test_a_stand_in_that_is_lost_is_followed_by_the_next_and_then_by_none() -> None:
    attempt = first("Winds of {n} km/h")
    tried = [attempt.sentence.plain]
    while attempt.sentence.stood_in:
        again = attempt.next(["Wind"])
        assert again is not None
        attempt = again
        tried.append(attempt.sentence.plain)

    assert tried == [*(f"Winds of {forms[0]} km/h" for forms in NUMBERS), "Winds of km/h"]
    assert attempt.next(["Wind"]) is None
    assert put_back(attempt.sentence, "Wind", None) == ("{n} Wind", (Flag.MARKUP_MOVED,))


def test_every_hypothesis_has_to_have_the_stand_in() -> None:
    attempt = first("Winds of {n} km/h")

    assert attempt.next(["风速17", "17公里"]) is None
    assert attempt.next(["风速17", "公里"]) is not None


@pytest.mark.parametrize(
    ("written", "text", "place"),
    [
        ("17", "um 17 Uhr", 3),
        ("17", "每小时17公里", 3),
        ("17", "um 17:10", None),
        ("17", "17 und 17", None),
        ("17", "117 km", None),
        ("17", "es sind 17.", 8),
        ("Anna", "von Annas Haus", None),
        ("伦敦", "在伦敦附近", 1),
    ],
)
def test_a_stand_in_is_a_word_of_its_own(written: str, text: str, place: int | None) -> None:
    assert place_of(written, text) == place


def test_documents_that_differ_in_the_name_of_a_placeholder_have_one_sentence() -> None:
    assert first("Call {user} now").sentence.plain == first("Call {customer} now").sentence.plain


def test_a_model_that_knows_no_word_has_no_attempt() -> None:
    assert Attempt.first(sentence("Call {user} now"), NO_STAND_INS) is None
    assert Attempt.first(sentence("Call <b>them</b> now"), KNOWN) is None


def test_through_two_models_only_what_both_copy_stands_in() -> None:
    monday, anna = StandIn("Monday", "Monday"), StandIn("Anna", "Anna")
    copied = StandIns(True, (anna, StandIn("London", "Londres")), (monday, StandIn("Friday", "vendredi")))

    assert survivors(copied, copied) == StandIns(True, (anna,), (monday,))
    assert survivors(copied, KNOWN) == StandIns(numbers=True)


PIECES = st.sampled_from(["{n}", "{town}", "{0}", " ", " ", "go", "<b>", "</b>", "<x/>", ", ", "&amp;", "17", "(", ")"])


@given(st.lists(PIECES, max_size=16).map("".join), st.data())
def test_each_mark_is_back_once_wherever_the_stand_ins_are(text: str, data: st.DataObject) -> None:
    text = "Word " + text
    signs = re.compile(r"</?b>|<x/>|\{\w+\}")
    for _span, marked in marked_spans(text, "en", HTML):
        attempt = None if marked is None else Attempt.first(marked, KNOWN)
        if marked is None or attempt is None:
            continue
        parts = data.draw(st.permutations([*(word.written for word in attempt.sentence.stood_in), "wort", "雨"]))
        target = " ".join(parts)
        if attempt.next([target]) is None:
            found = put_back(attempt.sentence, target, None)[0]
            assert sorted(signs.findall(found)) == sorted(signs.findall(marked.source))
        assert put_back(attempt.sentence, attempt.sentence.plain, None) == (marked.source, ())

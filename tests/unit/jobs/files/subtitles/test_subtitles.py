"""Subtitles: .srt, .vtt, .ass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.subtitles.formats import ASS, SRT, VTT
from jobs.files.subtitles.layout import in_lines, over_cues, visible
from jobs.files.translatable import Markup
from jobs.files.words import has_word

RIVER = """1
00:00:01,000 --> 00:00:03,000  X1:5
{\\an8}We went
to the river

2
00:00:03,100 --> 00:00:05,000
and came <i>back</i>.

3
00:00:06,000 --> 00:00:08,000
- Are you there?
- I am.
"""
EVENTS = """[Script Info]
; a note
[V4+ Styles]
Format: Name, Text
Dialogue: none, of these
[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,no text
Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\an8}Say, R&D is {\\i1}all\\Nwe{\\i0} have.{\\fad(1,2)}
Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,{\\p1}m 0 0 l 9 9{\\p0}
"""
PAGE = """WEBVTT - a title

NOTE not --> a time

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 line:0 align:start
<v Ann>Salt &amp; <00:01.500>pepper</v>

loose text
"""


def units(form, content: str) -> list[tuple[str, str]]:
    return [(unit.name, unit.text) for unit in form.read(content.encode()).units]


def written(form, content: str, *texts: str | None) -> str:
    return form.read(content.encode()).write(texts).decode()


def test_a_sentence_over_cues_is_one_unit_and_is_laid_out_over_them_again():
    assert units(SRT, RIVER)[0] == ("1", "We went to the river and came <i>back</i>.")

    other = written(SRT, RIVER, "Wir gingen zum Fluss <i>und kamen</i> zurück.", None)

    assert other == RIVER.replace("We went\nto the river", "Wir gingen zum Fluss").replace(
        "and came <i>back</i>.", "<i>und kamen</i> zurück."
    )


def test_a_tag_that_is_open_where_a_cue_ends_is_opened_again_in_the_next():
    assert over_cues("<i>one two</i> three", [3, 8]) == ["<i>one</i>", "<i>two</i> three"]


def test_lines_of_people_with_dashes_stay_lines():
    assert units(SRT, RIVER)[1] == ("3", "- Are you there?\n- I am.")
    assert "\n- Bist du da?\n- Ja.\n" in written(SRT, RIVER, None, "- Bist du da?\n- Ja.")


def test_a_cue_after_a_full_stop_a_pause_or_with_a_dash_begins_a_sentence():
    def joined(first: str, second: str, at: str = "00:00:02,000") -> bool:
        content = f"1\n00:00:01,000 --> 00:00:02,000\n{first}\n\n2\n{at} --> 00:01:00,000\n{second}\n"
        return len(units(SRT, content)) == 1

    assert joined("We went", "home.")
    assert joined("We saw", "Ann.")
    assert joined("But...", "...never.")
    assert not joined("We went.", "home.")
    assert not joined("We went", "- home.")
    assert not joined("We went", "home.", "00:00:30,000")
    assert not joined("No stops", "In this file")


def test_codes_of_events_are_marks_and_those_around_a_text_stay():
    [unit] = ASS.read(EVENTS.encode()).units
    assert unit.text == 'Say, R&amp;D is <x id="1"/>all we<x id="2"/> have.'
    assert unit.markup is Markup.XML

    other = written(ASS, EVENTS, 'Nur <x id="1"/>R&amp;D<x id="2"/> &lt; alles')

    assert ",,{\\an8}Nur {\\i1}R&D{\\i0} < alles{\\fad(1,2)}\n" in other
    assert len(other.splitlines()) == len(EVENTS.splitlines())


def test_notes_styles_settings_and_voices_of_webvtt_stay():
    assert units(VTT, PAGE) == [("1", '<v Ann>Salt &amp; <x id="1"/>pepper</v>')]

    other = written(VTT, PAGE, '<v Ann>Salz &amp; <x id="1"/>Pfeffer</v>')

    assert other == PAGE.replace("Salt", "Salz").replace("pepper", "Pfeffer")


def test_signs_that_mean_something_in_a_format_are_written_so_that_they_do_not():
    content = "WEBVTT\n\n00:01.000 --> 00:02.000\nOne\n"
    assert written(VTT, content, "a --> b < c").endswith("\na → b &lt; c\n")
    assert ",,{\\an8}(b)" in written(ASS, EVENTS.replace("{\\i1}", "").replace("{\\i0}", ""), "{b}")


def test_a_long_line_is_cut_at_words_and_chinese_between_signs():
    lines = in_lines("word " * 15 + "end", 42)
    assert len(lines) == 2
    assert max(map(visible, lines)) <= 42
    assert [len(line) for line in in_lines("字" * 50, 42)] == [29, 21]


def test_line_ends_byte_order_mark_and_encoding_are_kept():
    content = b"\xef\xbb\xbf" + RIVER.replace("\n", "\r\n").encode()
    other = SRT.read(content).write(["word " * 12 + "and", None])
    assert other.startswith(b"\xef\xbb\xbf1\r\n00:00:01,000 --> 00:00:03,000  X1:5\r\n{\\an8}word word")
    assert other.count(b"\n") == other.count(b"\r\n")
    latin = RIVER.replace("river", "Rhône").encode("cp1252")
    assert "Rhône" in SRT.read(latin).units[0].text
    with pytest.raises(SpecError, match="lacks '字'"):
        SRT.read(latin).write(["字", None])


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("windows-1251", "Мы пошли к реке и вернулись."),
        ("gbk", "我们去了河边，又回来了。" * 3),
        ("shift_jis", "川へ行って" * 9),
    ],
)
def test_a_text_of_another_encoding_than_windows_1252_is_refused(encoding, text):
    with pytest.raises(CorpusError, match="UTF-8"):
        SRT.read(f"1\n00:00:01,000 --> 00:00:03,000\n{text}\n".encode(encoding))


def test_a_cue_whose_words_have_times_of_their_own_is_a_text_of_its_own():
    head, times = "[Events]\nFormat: Start, End, Text\n", ("0:00:01.00,0:00:02.00", "0:00:02.00,0:00:03.00")
    for text in ("la li", "{\\k20}la {\\k20}li"):
        events = head + f"Dialogue: {times[0]},{text}\nDialogue: {times[1]},and so on\n"
        assert len(units(ASS, events)) == 1 + ("k20" in text)
    assert len(units(VTT, "WEBVTT\n\n00:01.0 --> 00:02.0\nla <00:01.5>li\n\n00:02.0 --> 00:03.0\nand so on\n")) == 2


def test_a_broken_file_is_refused_with_its_line():
    with pytest.raises(CorpusError, match="line 1"):
        VTT.read(b"1\n00:01.000 --> 00:02.000\nx")
    with pytest.raises(CorpusError, match="line 3: 2 fields"):
        ASS.read(b"[Events]\nFormat: Start, End, Text\nDialogue: 1,2")


@pytest.mark.parametrize("form", [SRT, VTT, ASS])
@pytest.mark.parametrize("part", ["{", "}", "{}", "<", "<i>", "-->", "\n", "\\N", "- \n", ".'"])
def test_a_cue_of_one_endless_thing_is_read_in_linear_time(form, part):
    head = {SRT.name: RIVER, VTT.name: PAGE + "\n00:01.000 --> 00:02.000\nx", ASS.name: EVENTS.rstrip()}[form.name]
    file = form.read((head + part * 50_000).encode())
    file.write([unit.text + "." for unit in file.units])


PIECES = st.sampled_from(
    ["1\n", "\n", "00:00:01,000 --> 00:00:02,000\n", "00:01.5 --> 00:02.5 align:start\r\n", "a <i>b\n", "c.</i>\n"]
)
EVENT = st.sampled_from(
    ["[Events]\n", "Format: Start, Text\n", "Dialogue: 0:00:01.00,{\\b1}a\\Nb{\\b0}\r\n", "Dialogue:"]
)


@given(st.lists(PIECES).map("".join), st.lists(EVENT).map("".join), st.binary())
def test_a_file_whose_texts_do_not_change_comes_back_byte_for_byte(blocks, events, noise):
    pairs = [(SRT, blocks), (VTT, "WEBVTT\n" + blocks), (ASS, events), (SRT, "\ufeff" + blocks)]
    for form, content in [*((form, text.encode()) for form, text in pairs), (SRT, noise), (ASS, noise)]:
        try:
            file = form.read(content)
        except CorpusError:
            continue
        assert file.write([unit.text for unit in file.units]) == content
        assert len({unit.name for unit in file.units}) == len(file.units)


WORDS = st.lists(st.text("abcäöxyz", min_size=1, max_size=60), min_size=2).map(" ".join)


@given(WORDS, st.lists(st.integers(1, 90), min_size=1, max_size=8))
def test_no_word_is_lost_and_none_moves_when_a_text_is_laid_out(text, lengths):
    parts = over_cues(text, lengths)
    assert len(parts) == len(lengths)
    assert [word for part in parts for line in in_lines(part, 42) for word in line.split()] == text.split()
    assert all(visible(line) <= 42 or " " not in line for part in parts for line in in_lines(part, 42))


@given(WORDS.filter(has_word))
def test_a_translation_that_is_written_is_read_again(text):
    for form, content in ((SRT, RIVER), (VTT, "WEBVTT\n\n" + RIVER.replace(",", ".")), (ASS, EVENTS)):
        file = form.read(content.encode())
        again = form.read(file.write([f"{text}.", *[None] * (len(file.units) - 1)]))
        assert again.units[0].text.replace("\n", " ") == f"{text}."
        assert [unit.text for unit in again.units[1:]] == [unit.text for unit in file.units[1:]]


def test_a_brace_that_never_closes_is_text() -> None:
    """Before Python 3.11.5 a possessive repeat of a group kept what its last, failing turn had taken
    (https://github.com/python/cpython/issues/106052)."""
    content = b"1\n00:00:01,000 --> 00:00:03,000\n{\\an8}{Rain falls\n"

    assert [unit.text for unit in SRT.read(content).units] == ["{Rain falls"]

"""What the commands print: no control sequence reaches a terminal, no formula reaches a spreadsheet."""

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from jobs.cli.render.messages import print_message
from jobs.cli.render.output import Column, Form, Output, print_json_rows
from jobs.text.csv_text import csv_cell, csv_line
from jobs.text.formatting import counted, duration, percent, size, visible
from jobs.text.json_text import to_json

HOSTILE = "\x1b[2J\x07\x9b31m\x7f\r\n\t\u202e\u2066\u2028\ud800[red]:smile:"


def test_control_characters_are_made_visible() -> None:
    assert visible("a\x1b[31mb") == r"a\x1b[31mb"
    assert visible(HOSTILE) == r"\x1b[2J\x07\x9b31m\x7f\r\n\t\u202e\u2066\u2028\ud800[red]:smile:"
    assert visible("汉字, émoji 👩‍👩‍👧") == "汉字, émoji 👩‍👩‍👧"


def test_a_message_keeps_its_line_breaks_and_no_other_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    print_message("one\ntwo \x1b[31m")

    assert capsys.readouterr() == ("", "one\ntwo \\x1b[31m\n")


def test_json_contains_no_control_character() -> None:
    hostile = HOSTILE.replace("\ud800", "")

    text = to_json({hostile: hostile}).decode()

    assert json.loads(text) == {hostile: hostile}
    assert not any(
        ord(character) < 32 or 127 <= ord(character) < 160 or character in "\u202e\u2066\u2028" for character in text
    )


def test_json_can_represent_every_type_of_database_value() -> None:
    at = datetime(2026, 11, 21, 1, 2, 3, 456789, UTC)

    assert to_json(
        [at, Decimal("12345678901234567890123"), Decimal("0.5"), b"\x00\xff", float("nan"), float("inf")]
    ) == (b'["2026-11-21T01:02:03.456Z",12345678901234567890123,0.5,"00ff",null,null]')


def test_an_empty_result_is_an_empty_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_json_rows([])
    assert capsys.readouterr().out == "[]\n"

    print_json_rows([{"a": 1}, {"a": 2}])
    assert capsys.readouterr().out == '[\n  {"a":1},\n  {"a":2}\n]\n'


PLAIN_FORMULAS = ["=1+1", "+1", "-1+1", "-1\n", "-", "-x", "@x", "\tx", "\rx", "\nx", "\n=1+1", "\r\n=1+1"]
HIDDEN_FORMULAS = ["＝1+1", "＋1", "－1", "＠x", "﹦1", "\ufeff=1+1", " =1+1", "\xa0=1", "\u200b-x", "\x00=1", "\v\f+1"]


@pytest.mark.parametrize("text", [*PLAIN_FORMULAS, *HIDDEN_FORMULAS])
def test_a_cell_never_starts_a_formula(text: str) -> None:
    assert csv_cell(text) == f"'{text}"
    assert csv_cell(f"a{text}") == f"a{text}"


@pytest.mark.parametrize("text", ["a=b", " a = b", "\ufeffa", "(=1)", "…", "—x", "译文", "1-2", "'=1"])
def test_other_texts_are_written_unchanged(text: str) -> None:
    assert csv_cell(text) == text


@pytest.mark.parametrize("number", ["-1", "-0.50", "-1.5e-7"])
def test_a_text_that_is_a_number_is_not_escaped_as_a_formula(number: str) -> None:
    assert csv_cell(number) == number


def test_a_number_stays_a_number() -> None:
    assert csv_cell(-1.5) == -1.5
    assert csv_cell(None) is None
    assert csv_cell({"a": "=1"}) == '{"a":"=1"}'


def test_csv_with_any_line_breaks_is_read_back_unchanged() -> None:
    cells = ["a\rb", "c\nd", 'e"f', "g,h", "i\r\nj"]

    assert next(csv.reader(io.StringIO(csv_line(cells), newline=""))) == cells
    assert csv_line(["a", "b"]) == "a,b\n"


def test_a_table_shows_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Output(Form.TABLE).rows([{"a": HOSTILE, "b": None}], [Column("a", "A"), Column("b", "B")], ("a", "b"))

    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["A", "B"]
    assert "[red]:smile:" in out
    assert "\x1b" not in out


def test_a_table_in_a_pipe_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Output(Form.TABLE).rows([{"a": "x" * 500, "b": 1}], [Column("a", "A"), Column("b", "B", right=True)], ("a", "b"))

    assert "x" * 500 in capsys.readouterr().out


def test_durations_counts_shares_and_sizes_are_written_for_people() -> None:
    assert [duration(seconds) for seconds in (None, 0, 59.94, 59.96, 65, 3599.9, 7800, 100_000)] == [
        *("-", "0.0 s", "59.9 s", "1 min 00 s", "1 min 05 s", "1 h 00 min", "2 h 10 min", "1 d 03 h")
    ]
    assert [counted(number, "job") for number in (0, 1, 2000)] == ["0 jobs", "1 job", "2,000 jobs"]
    assert [percent(share) for share in (0.0, 0.9999, 1.0)] == ["0.0 %", "99.9 %", "100.0 %"]
    assert [size(number) for number in (12, 1536, 5 << 40)] == ["12 bytes", "1.50 KiB", "5.00 TiB"]

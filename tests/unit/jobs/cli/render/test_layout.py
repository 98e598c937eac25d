"""Tables fit the width of the terminal: ids, names and numbers are never cut; columns left out are named."""

import sys
from typing import Any

import pytest
from hypothesis import given, strategies
from rich.cells import cell_len

from jobs.cli.commands import ls, totals
from jobs.cli.render.layout import fit_table, print_page, print_table
from jobs.cli.render.output import Column
from worker.cli.bench import cache, providers
from worker.cli.models import verify
from worker.cli.worker import ls as worker_ls
from worker.cli.worker import ping

NAMES = ("nightly-opensubtitles-2024-en-zh-part-0017", "汉语新闻语料库第三部分", "job", "-")

TABLES = (
    *(
        ls.COLUMNS,
        (*totals.OF_SCORES, totals.FLAGS),
        (*totals.OF_TEXTS, totals.FLAGS),
        worker_ls.COLUMNS,
        ping.COLUMNS,
        cache.COLUMNS,
        providers.COLUMNS,
    ),
    *(verify.CHECK_COLUMNS, verify.CAUSAL_CHECK_COLUMNS),
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Call with a number of columns: standard output is then a terminal of that width."""

    def of_width(columns: int) -> None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(columns))

    return of_width


@given(strategies.data())
def test_values_that_are_shown_are_never_cut_at_any_width(data: strategies.DataObject) -> None:
    columns = data.draw(strategies.sampled_from(TABLES))
    width = data.draw(strategies.integers(10, 300))
    cells = strategies.sampled_from([*NAMES, "1", "12,345,678", "opus-mt-tc-big-en-zh-int8", "2026-11-22 11:23:11"])
    rows = data.draw(strategies.lists(strategies.lists(cells, min_size=len(columns), max_size=len(columns))))

    fitted = fit_table(rows, columns, width)

    is_table = len(fitted.lines) > 1 and set(fitted.lines[1]) <= {"-", " "}  # the rule below the titles
    assert not fitted.shortened
    shown = [i for i, column in enumerate(columns) if column.title not in fitted.left_out]
    if is_table:
        assert all(cell_len(line) <= width for line in fitted.lines)
        assert {i for i, column in enumerate(columns) if column.rank == 0} <= set(shown)
        whole = [[row[i] for i in shown] for row in rows]
        assert [line.split() for line in fitted.lines[2:]] == [" ".join(row).split() for row in whole]
    else:  # one block of lines per row, with every column
        assert fitted.left_out == ()
        blocks = "\n".join(fitted.lines).split("\n\n") if rows else []
        assert ["".join(block.split()) for block in blocks] == [
            "".join("".join((column.title + cell).split()) for column, cell in zip(columns, row, strict=True))
            for row in rows
        ]


def test_the_least_important_columns_are_left_out_first_and_those_that_still_fit_stay() -> None:
    columns = [Column("a", "A"), Column("b", "B" * 30, rank=2), Column("c", "C" * 5, rank=3), Column("d", "D", rank=1)]

    fitted = fit_table([["1", "2", "3", "4"]], columns, 20)

    assert (fitted.lines[0].split(), fitted.left_out) == (["A", "CCCCC", "D"], ["B" * 30])


def test_texts_are_shortened_before_a_column_is_left_out_and_share_the_width_that_remains() -> None:
    columns = [Column("id", "id"), Column("x", "x", is_text=None), Column("y", "y", is_text=None)]

    fitted = fit_table([["document-17", "a text " * 20, "文本" * 40]], columns, 60)

    assert fitted.shortened
    assert [cell_len(line) for line in fitted.lines] == [len("id") + 11 + 23, 60, 60]
    assert fitted.lines[2].startswith("document-17  a text a text a tex")
    assert fitted.lines[2].count("…") == 2


def test_a_block_wraps_text_between_words_and_never_inside_a_long_word() -> None:
    columns = [Column("id", "ID"), Column("x", "TEXT", is_text=True)]

    fitted = fit_table([["i" * 90, "one two three four five six " + "7" * 40]], columns, 32)

    assert fitted.lines == [
        f"ID    {'i' * 90}",
        "TEXT  one two three four five",
        "      six",
        f"      {'7' * 40}",
    ]


def test_columns_that_are_left_out_are_named_on_standard_error(
    terminal: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(20)

    print_table([{"a": "x" * 12, "b": "y" * 12}], [Column("a", "ALPHA"), Column("b", "BETA", rank=1)])

    out, err = capsys.readouterr()
    assert out == "ALPHA\n------------\nxxxxxxxxxxxx\n"
    assert "Left out: BETA." in err
    assert "--json" in err


def test_a_long_line_of_a_page_continues_below_the_start_of_its_value(
    terminal: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(40)

    print_page(["Job 1", "  options    beam_size 4, n_best 1, cache auto", "  x\x1b[31m"])

    assert capsys.readouterr().out.splitlines() == [
        "Job 1",
        "  options    beam_size 4, n_best 1,",
        "             cache auto",
        r"  x\x1b[31m",
    ]


def test_a_page_folds_text_without_spaces_and_leaves_commands_in_one_line(
    terminal: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(40)
    text, command = "今天天气很好，" * 20, f"kvjobs export 1 --where \"status = 'failed'\" -o {'x' * 40}.jsonl"

    print_page([f"    line 5: the sentence {text}", f"Next: {command}", f"      {command}"])

    *folded, first, second = capsys.readouterr().out.splitlines()
    assert all(cell_len(line) <= 40 and line.startswith("    ") for line in folded)
    assert text in "".join(line.strip() for line in folded)
    assert (first, second) == (f"Next: {command}", f"      {command}")

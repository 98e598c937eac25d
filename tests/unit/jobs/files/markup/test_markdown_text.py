"""Markdown."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.errors import CorpusError
from jobs.files.markup.markdown_text import FORMAT
from jobs.files.translatable import Markup

PIECES = (
    "# ;## ;> ;- ;1. ;  ;    ;\t;\n;\n\n;\r\n;\r;words ;**bold**;`code`;```\n;~~~;| a | b |\n|---|---|\n;| c \\| d |"
    ";---\n;===\n;[x]: http://x;[^1]: ;[ ] ;<div>;<b>;\\\n;  \n;::: note;$$;Ä;日本;!!! note;\0;\ufeff"
)
TEXTS = st.lists(st.sampled_from(PIECES.split(";"))).map("".join)


def texts(content: str) -> list[str]:
    return [unit.text for unit in FORMAT.read(content.encode()).units]


@given(TEXTS.map(str.encode) | st.binary() | st.text().map(str.encode))
@example(b"---\ntitle: x\n---")
@example(b"\xfe\xff\x00")
def test_a_file_with_its_own_texts_comes_back_byte_for_byte(content):
    try:
        file = FORMAT.read(content)
    except CorpusError:  # of half a character of UTF-16, and of encodings that are neither UTF-8 nor windows-1252
        assert content.startswith((b"\xfe\xff", b"\xff\xfe")) or len(content) > 20
        return

    assert file.write([unit.text for unit in file.units]) == content
    assert file.write([None] * len(file.units)) == content


@pytest.mark.parametrize(
    ("content", "units"),
    [
        ("One\ntwo  \nthree\\\nfour", ["One two", "three", "four"]),
        ("> One\n> two\nthree", ["One two three"]),
        ("# One #\n\nTwo\n===\n\n- Three\n  four\n  1. Five", ["One", "Two", "Three four", "Five"]),
        ("| One | `ab \\| b` |\n|---|---|\n| | Two |\n| One | One |", ["One", "`ab \\| b`", "Two", "One", "One"]),
        ("---\ntitle: No\n---\nOne", ["One"]),
        ("+++\ntitle = 'No'\n+++\n\n# One", ["One"]),
        ("One\n\n```\nno\n```\n\n    no\n\n<div>\nno\n</div>\n\n[x]: http://no 'No'\n", ["One"]),
        ("See [the page](http://x) and `code`.", ["See [the page](http://x) and `code`."]),
        ("[^1]: One note\n\n- [ ] Two\n- [x] Three", ["One note", "Two", "Three"]),
        ("::: note\nOne\n:::\n\n> [!NOTE]\n> Two", ["One", "Two"]),
        ("One\n$$\na = b\n$$\nTwo", ["One", "Two"]),
        ("日本語の\n文書", ["日本語の文書"]),
        ("***\n\n1.\n\n42", []),
        ("\ufeff# One", ["One"]),
    ],
)
def test_the_texts_of_blocks_are_units_and_their_lines_are_joined(content, units):
    assert texts(content) == units
    assert texts(content.replace("\n", "\r\n")) == units


def test_a_translation_stands_on_one_line_in_its_block():
    content = b"> - One\n>   two\n\n| aa | bb |\r\n|---|---|\r\n# CC #\n"

    written = FORMAT.read(content).write(["Eins\nzwei", "a|\\|b", "B", "# D"])

    assert written == b"> - Eins zwei\n\n| a\\|\\|b | B |\r\n|---|---|\r\n# # D #\n"


@pytest.mark.parametrize(
    "text", ["# One", "- One", "1. One", "12) One", "> One", "***", "---", "```", "| One", "+ a", "==="]
)
def test_a_translation_that_begins_like_another_block_stays_a_paragraph(text):
    written = FORMAT.read(b"Some words\n").write([text])

    assert texts(written.decode().replace("\n", " words")) == [written.decode().strip() + " words"]
    assert written.decode().replace("\\", "").strip() == text


def test_units_are_markdown():
    assert {unit.markup for unit in FORMAT.read(b"# One\n\nTwo").units} == {Markup.MD}


@pytest.mark.parametrize(
    "piece",
    [
        "> ",
        "- ",
        "[",
        "a\n",
        "# a\n",
        "| a ",
        "`",
        "*",
        "a\n\n",
        "> a\n",
        "- a\n",
        "<a ",
        "$$",
        "[a]: b\n",
        "|a|b|\n|-|-|\n",
    ],
)
def test_a_hostile_file_takes_time_by_its_length(piece):
    start = time.process_time()

    FORMAT.read((piece * 5_000).encode())

    assert time.process_time() - start < 3

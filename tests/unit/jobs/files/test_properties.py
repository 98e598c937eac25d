"""Java's .properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError
from jobs.files.formats import FORMATS, format_of, suffix_of
from jobs.files.properties import FORMAT
from jobs.files.words import has_word


def values(content: bytes) -> dict[str, str]:
    return {unit.name: unit.text for unit in FORMAT.read(content).units}


@pytest.mark.parametrize(
    ("written", "name", "text"),
    [
        (b"Truth = Beauty", "Truth", "Beauty"),
        (b" Truth:Beauty", "Truth", "Beauty"),
        (b"Truth Beauty", "Truth", "Beauty"),
        (b"fruits  apple, banana, \\\n    pear, \\\r\n\tmango\n", "fruits", "apple, banana, pear, mango"),
        (b"a\\ b\\=c = dd = e ", "a b=c", "dd = e "),
        (b"path=c:\\\\new\\tab\\q", "path", "c:\\new\tabq"),
        (b"smile=\\ud83d\\ude00 \\u00e9t\\u00e9", "smile", "😀 été"),
        ("größe=weiß".encode(), "größe", "weiß"),
        ("größe=weiß".encode("latin-1"), "größe", "weiß"),
        (b"\xef\xbb\xbfkey=value", "key", "value"),
        (b"key=ends\\", "key", "ends"),
        (b"one=\\\n# no comment", "one", "# no comment"),
    ],
)
def test_a_value_is_read_as_java_reads_it(written, name, text):
    assert values(written) == {name: text}


def test_values_without_a_word_are_no_units_and_comments_above_a_key_are_its_context():
    content = b"# about a\n! more\na=one\n\n# of nothing\n\nb=\nc=\\ \n#\nx=x-12\nd=two"

    units = FORMAT.read(content).units

    assert [(unit.name, unit.context) for unit in units] == [("a", "about a\nmore"), ("d", None)]


def test_of_a_key_that_stands_there_twice_both_values_are_units():
    assert values(b"a=one\na=two") == {"a": "one", "a (2)": "two"}


def test_an_escape_that_java_refuses_is_refused_with_its_line():
    with pytest.raises(CorpusError, match="line 2"):
        FORMAT.read(b"a=1\nb=\\u12 pieces")


@pytest.mark.parametrize("head", ["", "# größe\n", "x=größe\n"])
@given(text=st.text(st.characters(codec="utf-8"), min_size=1).filter(has_word))
def test_a_value_that_is_written_is_read_again(head, text):
    before = f"{head}a = old \\\n  value\r\nb=two\n".encode()
    file = FORMAT.read(before)

    written = file.write([text if unit.name == "a" else None for unit in file.units])

    assert values(written) == {**values(before), "a": text}
    assert written.endswith(b"\r\nb=two\n")
    assert FORMAT.read(written).write([None] * len(file.units)) == written


@given(st.binary(), st.text("ab=: \\\n\r\tu0#!é"))
def test_a_file_whose_values_do_not_change_comes_back_byte_for_byte(noise, text):
    for content in (noise, text.encode()):
        try:
            file = FORMAT.read(content)
        except CorpusError:
            continue
        assert file.write([unit.text for unit in file.units]) == content
        assert len({unit.name for unit in file.units}) == len(file.units)


def test_characters_are_written_in_utf_8_only_where_values_have_them():
    assert FORMAT.read("# größe\na=bb".encode()).write(["ü"]) == "# größe\na=\\u00fc".encode()
    assert FORMAT.read("a=été\nb=cc".encode()).write([None, "ü"]) == "a=été\nb=ü".encode()
    assert FORMAT.read("a=été\nb=cc".encode("latin-1")).write([None, "ü"]) == b"a=\xe9t\xe9\nb=\\u00fc"


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_suffix_is_one_of_its_format(suffix):
    assert suffix_of(f"dir/Name{suffix.upper()}") == suffix
    assert suffix in format_of(f"x{suffix}").suffixes

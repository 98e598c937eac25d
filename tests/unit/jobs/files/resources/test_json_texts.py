"""JSON of texts: i18next, Chrome's messages.json, .arb."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.resources.json_strings import strings_of
from jobs.files.resources.json_texts import ARB, JSON
from jobs.files.translatable import Markup

NESTED = """{
  "menu": {"open":  "Open {name}", "id": 7, "none": null, "list": ["One <b>thing</b>", "--", "x-1"]},
  "$schema": "https://of.this/file",
  "a.b": "xx", "a": {"b": "yy"}, "a.b": "zz",
  "many": "{n, plural, one {# file} other {# files}}"
}
"""


def units(content: str, form=JSON) -> dict[str, str]:
    return {unit.name: unit.text for unit in form.read(content.encode()).units}


def test_strings_with_words_are_units_by_their_keys():
    assert units(NESTED) == {
        "menu.open": "Open {name}",
        "menu.list.0": "One <b>thing</b>",
        "a.b": "xx",
        "a.b (2)": "yy",
        "a.b (3)": "zz",
        "many": "{n, plural, one {# file} other {# files}}",
    }
    assert [unit.markup for unit in JSON.read(NESTED.encode()).units][:2] == [Markup.NONE, Markup.HTML]


def test_all_but_the_strings_that_change_stays():
    other = JSON.read(NESTED.encode()).write(['"Ö"\n{name}', None, None, None, "ß", None]).decode()
    assert other == NESTED.replace('"Open {name}"', '"\\"Ö\\"\\n{name}"').replace('"zz"', '"ß"')


def test_of_chromes_messages_the_message_alone_is_a_text():
    content = '{"open": {"message": "Open $1", "description": "a button", "placeholders": {"1": {"content": "x"}}}}'
    [unit] = JSON.read(content.encode()).units
    assert (unit.name, unit.text, unit.context) == ("open", "Open $1", "a button")


def test_an_arb_file_gets_its_language_and_its_metadata_are_context():
    content = '{"@@locale": "en", "open": "Open", "@open": {"description": "a button", "type": "text"}}'
    file = ARB.read(content.encode())
    assert [(unit.name, unit.context) for unit in file.units] == [("open", "a button")]
    assert file.write(["Abrir"], "pt-BR").decode() == content.replace('"en"', '"pt_BR"').replace('"Open"', '"Abrir"')


def test_characters_are_escaped_where_the_file_escapes_all():
    assert JSON.read(b'{"a": "\\u00e9t"}').write(["\u00fc\U0001f600"]) == b'{"a": "\\u00fc\\ud83d\\ude00"}'
    with pytest.raises(SpecError):
        JSON.read(b'{"a": "bb"}').write(["\ud800"])


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"a": "b",}', 1),
        (b'{"a": \n"b', 2),
        (b'{"a"\n"b"}', 2),
        (b'["a"\n\n"b"]', 3),
        (b"{} \n{}", 2),
        (b"", 1),
        (b'{"a": "\x00"}', 1),
        (b'{"a": "\n"}', 1),
        (b'\n{"a": "\xff"}', 2),
        (b"// a comment\n{}", 1),
        (b"[" * 1_000_000, 1),
        (b'{"a":' * 300_000, 1),
        (b'["' + b"a" * 1_000_000, 1),
    ],
)
def test_what_is_no_json_or_nested_too_deep_is_refused_with_its_line(content, line):
    with pytest.raises(CorpusError, match=f"line {line}:") as refused:
        JSON.read(content)
    assert len(str(refused.value)) < 200


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 0, 2, "\t"]), st.booleans(), st.binary())
def test_a_file_whose_texts_do_not_change_comes_back_byte_for_byte(value, indent, ascii_only, noise):
    dumped = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")
    for content in (dumped, b"\xef\xbb\xbf" + dumped + b"\r\n", noise):
        try:
            file = JSON.read(content)
        except CorpusError:
            assert content is noise or isinstance(value, list)
            continue
        assert file.write([unit.text for unit in file.units]) == content
        assert len({unit.name for unit in file.units}) == len(file.units)


@given(VALUES)
def test_the_strings_are_those_that_python_reads(value):
    def below(inner):
        if isinstance(inner, str):
            return [inner]
        return [text for each in (inner.values() if isinstance(inner, dict) else inner) for text in below(each)] if (
            isinstance(inner, dict | list)) else []  # fmt: skip

    assert [string.text for string in strings_of(json.dumps(value))] == below(value)


@given(st.text(st.characters(codec="utf-8")).filter(lambda text: any(map(str.isalpha, text))))
def test_a_text_that_is_written_is_read_again(text):
    written = JSON.read(NESTED.encode()).write([text, None, None, None, None, None])
    assert json.loads(written)["menu"]["open"] == text

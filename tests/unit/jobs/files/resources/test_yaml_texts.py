"""YAML of texts: styles, keys, files of Rails, and what is refused."""

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.resources.yaml_texts import FORMAT

RAILS = """# of the page
en:
  # a button
  open: Open it   # shown first
  about: |
    Of this
    program.

  folded: >-
    One line
    in two
  said: 'it''s'
  tagged: &name !!str
    Name
  again: *name
  wrapped: of two
    lines
  flow: [one, {a: two words, "b": "three"}]
  no: yes
  order:
  - :year
  - "off"
  others: [12, 0x1F, 1e3, 2026-11-27, ~, null, off]
  file: !include other.yml
  ? [a, b]
  : of a list
  open: again
"""
NAMES = ["open", "about", "folded", "said", "tagged", "wrapped", "flow.0", "flow.1.a", "flow.1.b", "order.1", "?"]
NAMES += ["open (2)"]


def written(texts: dict[str, str], content: str = RAILS, language: str | None = None) -> str:
    file = FORMAT.read(content.encode())
    return file.write([texts.get(unit.name) for unit in file.units], language).decode()


def test_strings_with_letters_are_units_by_their_keys_and_comments_above_are_their_context():
    units = FORMAT.read(RAILS.encode()).units
    assert [unit.name for unit in units] == NAMES
    assert units[0].context == "a button"
    assert [unit.text for unit in units[:6]] == [
        "Open it", "Of this\nprogram.", "One line in two", "it's", "Name", "of two lines",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "old", "new"),
    [
        ("open", "Öffnen", "Open it  ", "Öffnen  "),
        ("open", "Auf: zu", "Open it  ", '"Auf: zu"  '),
        ("open", "Auf #1", "Open it  ", '"Auf #1"  '),
        ("open", "12", "Open it  ", '"12"  '),
        ("open", "0o17", "Open it  ", '"0o17"  '),
        ("open", "Non", "Open it  ", "Non  "),
        ("open", "No", "Open it  ", '"No"  '),
        ("open", "*auf", "Open it  ", '"*auf"  '),
        ("open", "a\nb\u2028", "Open it  ", '"a\\nb\\u2028"  '),
        ("about", "Eins\n\n  zwei: #3", "Of this\n    program.\n", "Eins\n\n      zwei: #3\n"),
        ("about", " Eins", "|\n    Of this\n    program.\n", '" Eins\\n"\n'),
        ("folded", "Eins\nzwei", "One line\n    in two", "Eins\n\n    zwei"),
        ("said", "geht's", "it''s", "geht''s"),
        ("said", "a\nb", "'it''s'", '"a\\nb"'),
        ("tagged", "12", "\n    Name", '\n    "12"'),
        ("wrapped", "von zweien", "of two\n    lines", "von zweien"),
        ("flow.0", "eins, zwei", "[one", '["eins, zwei"'),
        ("flow.1.a", "zwei", "two words", "zwei"),
        ("flow.1.b", 'drei "3"', '"three"', '"drei \\"3\\""'),
    ],
)
def test_a_text_is_written_in_the_style_of_its_place_or_between_quotation_marks(name, text, old, new):
    assert old in RAILS
    assert written({name: text}) == RAILS.replace(old, new, 1)


def test_a_long_folded_text_is_wrapped_and_line_ends_are_those_of_the_file():
    content = "a: >\r\n  short\r\nb: x\r\n"
    long = "Wort " * 30 + "Ende"
    found = written({"a": long}, content)
    assert max(map(len, found.split("\r\n"))) < 80
    assert "\n" not in found.replace("\r\n", "")
    assert yaml.safe_load(found) == {"a": long + "\n", "b": "x"}


@pytest.mark.parametrize(("language", "key"), [("de", "de"), ("pt-BR", "pt-BR"), ("no", '"no"')])
def test_the_key_of_a_file_of_rails_becomes_the_language(language, key):
    assert written({}, language=language) == RAILS.replace("\nen:", f"\n{key}:")


@pytest.mark.parametrize(
    "content", ["en:\n  a: x\nde:\n  a: x\n", "app:\n  a: x\n", "en: x\n", "en:\n- x\n---\nb: y\n"]
)
def test_other_keys_stay(content):
    assert written({}, content, "fr") == content


BOMB = "a0: &a0 [lol, lol]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))


def test_aliases_are_not_followed():
    assert len(FORMAT.read(BOMB.encode()).units) == 2


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"[" * 1_000_000, 1),
        (b"a: " + b"{a: " * 300_000, 1),
        (b"\n" + b"- " * 100_000, 2),
        (b"a:\n\tb: c", 2),
        (b'a: x\nb: "' + b"y" * 1_000_000, 2),
        (b"a: x\nb: \x00", 2),
        (b"a: x\nb: \xff", 2),
        (b"a: *b\n c: d", 2),
    ],
)
def test_what_is_no_yaml_or_nested_too_deep_is_refused_with_its_line(content, line):
    with pytest.raises(CorpusError, match=rf"line {line}:") as refused:
        FORMAT.read(content)
    assert len(str(refused.value)) < 200


def test_tags_of_python_make_nothing():
    assert FORMAT.read(b"a: !!python/object/apply:os.system ['rm x']\nb: !!binary aGFsbG8=").units[1:] == []


def test_half_of_a_character_is_refused():
    with pytest.raises(SpecError):
        written({"open": "\ud800"})


STYLES = st.sampled_from([None, "'", '"', "|", ">"])
TEXTS = st.text(st.characters(codec="utf-8")) | st.text("a \n:#-?'\"[]{},&*!|>%@`\\", max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES, STYLES, st.booleans(), st.binary())
def test_a_file_whose_texts_do_not_change_comes_back_byte_for_byte(value, style, flow, noise):
    dumped = yaml.safe_dump(value, default_style=style, default_flow_style=flow, allow_unicode=True).encode()
    for content in (dumped, b"\xef\xbb\xbf" + dumped.replace(b"\n", b"\r\n"), noise):
        try:
            file = FORMAT.read(content)
        except CorpusError:
            assert content is noise
            continue
        assert file.write([unit.text for unit in file.units]) == content
        assert len({unit.name for unit in file.units}) == len(file.units)


@example("0\t0", "a: xx\n")
@example("0?", "{a: xx}")
@given(
    TEXTS,
    st.sampled_from(
        ["a: xx\n", "- 'xx'\n", "{a: xx}", "[xx]", "a:\n  b: |\n    xx\n  c: 1\n", "- >-\n xx\n", '"xx"', "xx"]
    ),
)
def test_a_reader_finds_the_text_that_was_written(text, content):
    def leaf(found):
        while isinstance(found, dict | list):
            found = next(iter(found.values())) if isinstance(found, dict) else found[0]
        return found

    before = leaf(yaml.safe_load(content))
    found = yaml.safe_load(FORMAT.read(content.encode()).write([text]))
    assert leaf(found) == (text if text == "xx" else text + before[2:])

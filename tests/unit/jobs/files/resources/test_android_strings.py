r"""Android's strings.xml."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.resources.android_strings import FORMAT
from jobs.files.translatable import ForeignFile, Markup
from jobs.files.words import has_word

FILE = r"""<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- of a
         button -->
    <string name="open">Don\'t "open  it"\n\u00e9
        &amp; <!-- no --> \@me</string>
    <string name="kept" translatable="false">Kept</string>
    <string name="reference">@string/open</string>
    <string name="marks">Hi <xliff:g id="n" example="Bo">%1$s</xliff:g>, you\'re <b title="it's">here</b></string>
    <string name="page"><![CDATA[<b>Bold</b> & it\'s]]></string>
    <string name="escaped">&lt;b>One&lt;/b></string>
    <plurals name="files">
        <item quantity="one">%d file</item>
        <item quantity="other">%d files</item>
    </plurals>
    <string-array name="days">
        <item>Monday</item>
        <item>@string/open</item>
    </string-array>
    <color name="red">#ff0000</color>
</resources>
"""


MARKS = """Hi <xliff:g id="n" example="Bo">%1$s</xliff:g>, you\\'re <b title="it's">here</b>"""


def written(texts: dict[str, str], language: str | None = None, content: str = FILE) -> str:
    file = FORMAT.read(content.encode(), target_language=language)
    return file.write([texts.get(unit.name) for unit in file.units], language).decode()


def test_a_unit_is_what_android_makes_of_a_string():
    units = {unit.name: unit for unit in FORMAT.read(FILE.encode().replace(b"<!-- no -->", b"")).units}
    assert {name: unit.text for name, unit in units.items()} == {
        "open": "Don't open  it\né & @me",
        "marks": "Hi <1/>, you're <b title=\"it's\">here</b>",
        "page": "<b>Bold</b> & it's",
        "escaped": "<b>One</b>",
        "files[one]": "%d file",
        "files[other]": "%d files",
        "days.0": "Monday",
    }
    assert (units["open"].context, units["marks"].context) == ("of a button", None)
    assert [units[name].markup for name in ("open", "marks", "page", "escaped")] == [
        Markup.NONE, Markup.XML, Markup.HTML, Markup.HTML,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "old", "new"),
    [
        ("marks", "L'<b>été</b> <1/>\n", MARKS, r"L\'<b>été</b> " + MARKS[3:46] + r"\n"),
        ("page", "<i>c'est</i>", r"<b>Bold</b> & it\'s", r"<i>c\'est</i>"),
        ("page", "a]]>b", r"<![CDATA[<b>Bold</b> & it\'s]]>", "a]]&gt;b"),
        ("escaped", "<b>1 & 2</b>", "&lt;b>One&lt;/b>", "&lt;b&gt;1 &amp; 2&lt;/b&gt;"),
        ("days.0", '?a  "b"\\ ', "Monday", r"\?a \u0020\"b\"\\\u0020"),
        ("days.0", "@x", "Monday", r"\@x"),
    ],
)
def test_a_text_is_escaped_for_android(name, text, old, new):
    assert written({name: text}) == FILE.replace(old, new)


def test_a_plural_has_the_items_of_the_target_language():
    ru = written({"files[one]": "файл", "files[few]": "файла", "files[many]": "файлов", "files[other]": "файла"}, "ru")
    assert ru == FILE.replace("%d file<", "файл<").replace(
        '        <item quantity="other">%d files</item>',
        '        <item quantity="few">файла</item>\n        <item quantity="many">файлов</item>\n'
        '        <item quantity="other">файла</item>',
    )
    zh = written({"files[other]": "%d"}, "zh")
    assert zh == FILE.replace('        <item quantity="one">%d file</item>\n', "").replace("%d files", "%d")


@pytest.mark.parametrize("one", ["1", "%d", "x"])
def test_an_item_without_a_word_belongs_to_its_plural(one):
    items = f"<item quantity='one'>{one}</item><item quantity='other'>%d files</item>"
    file = FORMAT.read(f"<resources><plurals name='n'>{items}</plurals></resources>".encode(), target_language="ru")
    assert [unit.name for unit in file.units] == ["n[one]", "n[few]", "n[many]", "n[other]"]

    of_codes = f"<resources><plurals name='n'>{items.replace('files', 's')}</plurals></resources>"
    assert list(FORMAT.read(of_codes.encode(), target_language="ru").units) == []


def test_other_xml_is_foreign_even_if_it_is_broken_and_an_empty_file_of_resources_has_no_units():
    for content in (b"<project/>", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;", b"<project><resources/></project>", b""):
        with pytest.raises(ForeignFile):
            FORMAT.read(content)
    assert list(FORMAT.read(b"<resources/>").units) == []


@pytest.mark.parametrize(
    "content",
    [
        b"<resources>",
        b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><resources><string name='a'>&b;</string></resources>",
        b"<!DOCTYPE a ["
        + b"".join(b"<!ENTITY b%d '&b%d;&b%d;'>" % (n, n + 1, n + 1) for n in range(40))
        + b"]><resources/>",
        b"<resources>" + b"<a>" * 100_000,
        b"<resources><string name='" + b"a" * 1_000_000,
    ],
)
def test_entities_and_what_never_closes_are_refused(content):
    with pytest.raises(CorpusError) as refused:
        FORMAT.read(content)
    assert not isinstance(refused.value, ForeignFile)
    assert len(str(refused.value)) < 200


def test_a_text_that_is_no_xml_is_refused():
    with pytest.raises(SpecError):
        written({"marks": "<b>open"})
    with pytest.raises(SpecError):
        written({"days.0": "\x01"})


TEXTS = st.lists(
    st.sampled_from(["One ", r"\'", r"\n", "\n  ", '"', "&amp;", "%1$s", "<b>x</b>", "<![CDATA[<i>]]>", "é",
                     r"\u0020", "@", "\\\\", "<xliff:g id='1'>x</xliff:g>"])
).map("".join)  # fmt: skip
LANGUAGES = st.sampled_from([None, "ru", "zh", "ar", "en"])


@given(st.lists(TEXTS, max_size=4), TEXTS, st.sampled_from(["utf-8", "utf-16"]), LANGUAGES)
def test_a_file_whose_texts_do_not_change_comes_back_byte_for_byte(strings, other, encoding, language):
    inner = "".join(f"\r\n<string name='s'>{text}</string>" for text in strings)
    plural = f"<plurals name='p'><item quantity='one'>x</item> <item quantity='other'>{other}</item></plurals>"
    head = f"<?xml version='1.0' encoding='{encoding}'?><resources xmlns:xliff='urn:x'>"
    content = f"{head}{inner}{plural}</resources>".encode(encoding)
    file = FORMAT.read(content, target_language=language)

    assert file.write([unit.text for unit in file.units]) == content
    assert len({unit.name for unit in file.units}) == len(file.units)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])).filter(has_word))
def test_a_text_that_is_written_is_read_again(text):
    file = FORMAT.read(b"<resources><string name='a'>One</string></resources>")
    [unit] = FORMAT.read(file.write([text])).units
    assert unit.text == text

"""What nobody writes by hand, through the readers of all formats: time by the length, no recursion, short sentences."""

import io
import time
import zipfile

import pytest

from jobs.errors import CorpusError, SpecError
from jobs.files.formats import FORMATS, format_of
from jobs.files.translatable import TranslatableFile

FORMATS_BY_NAME = {form.name: form for form in map(format_of, FORMATS)}
AROUND = {
    "android": ("<resources><string name='a'>", "</string></resources>"),
    "docx": ("<w:document><w:p><w:r><w:t>", "</w:t></w:r></w:p></w:document>"),
    "html": ("<p>", "</p>"),
    "json": ('{"a": "', '"}'),
    "odt": ("<o><text:p>", "</text:p></o>"),
    "resx": ("<root><data name='a'><value>", "</value></data></root>"),
    "strings": ('"a" = "', '";'),
    "stringsdict": ("<plist><dict><key>a</key><string>", "</string></dict></plist>"),
    "tmx": ("<tmx><body><tu><tuv xml:lang='en'><seg>", "</seg></tuv></tu></body></tmx>"),
    "xcstrings": ('{"sourceLanguage": "en", "strings": {"a": {"comment": "', '"}}}'),
    "xliff": ("<xliff><file><body><trans-unit><source>", "</source></trans-unit></body></file></xliff>"),
    "yaml": ("a: ", "\n"),
}
PIECES = [
    "<", "<a ", "<a>", "</a>",
    "<!--", "<![CDATA[", "<?", "&amp;", '"', "'", "{", "[", '{"a":', "- ", "? ", ": ", "a:\n",
    "*a ", "&a ", "!!a ", "|\n", "#", "\\", " ", "\n", "\t", "%", "`", "*", "_", "[a](", "| a ", "> ", "-->", "/*", "=",
    '"a"="b";', 'msgid "a" msgstr ""\n', "<b><i>", "<g id='1'>", "\\u0041", "é",
]  # fmt: skip
LONG, SHORT = 40_000, 4_000  # characters


def content_of(name: str, text: str) -> bytes:
    if name not in ("docx", "odt"):
        return text.encode()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("word/document.xml" if name == "docx" else "content.xml", text)
    return target.getvalue()


def tried(name: str, content: bytes) -> float:
    """The processor seconds of a reading and two writings."""
    start = time.process_time()
    try:
        file: TranslatableFile = FORMATS_BY_NAME[name].read(content, target_language="ru")
        assert file.write([unit.text for unit in file.units]) == content
        file.write([f"{unit.text} x" for unit in file.units], "ru")
        sentence = ""
    except SpecError as refused:
        sentence = str(refused)
    assert len(sentence) < 400
    return time.process_time() - start


@pytest.mark.parametrize("name", sorted(FORMATS_BY_NAME))
def test_time_is_linear_whatever_is_repeated(name: str) -> None:
    for before, behind in {("", ""), AROUND.get(name, ("", ""))}:
        for piece in PIECES:
            seconds = tried(name, content_of(name, before + piece * (LONG // len(piece)) + behind))
            if seconds > 0.5:  # ten times the length, and at most thirty times the time
                shorter = tried(name, content_of(name, before + piece * (SHORT // len(piece)) + behind))
                assert seconds < 30 * max(shorter, 0.02), (name, piece, seconds, shorter)


ENTITIES = "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'><!ENTITY y '&x;&x;&x;'>]>"


@pytest.mark.parametrize("name", ["android", "docx", "odt", "resx", "stringsdict", "tbx", "tmx", "xliff"])
def test_entities_are_refused_in_every_format_of_xml(name: str) -> None:
    before, behind = AROUND.get(name, ("<tbx>", "</tbx>"))
    with pytest.raises(CorpusError, match=r"line 1: .*kvjobs refuses"):
        FORMATS_BY_NAME[name].read(content_of(name, f"{ENTITIES}{before}&y;{behind}"))


@pytest.mark.parametrize("name", ["android", "docx", "html", "odt", "resx", "stringsdict", "tmx", "xliff"])
def test_elements_within_each_other_take_no_recursion(name: str) -> None:
    before, behind = AROUND[name]
    tried(name, content_of(name, before + "<b>" * 30_000 + "x" + "</b>" * 30_000 + behind))

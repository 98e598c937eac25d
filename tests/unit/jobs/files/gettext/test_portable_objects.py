"""gettext's .po and .pot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.gettext.entries import entries_of
from jobs.files.gettext.plural_rules import parsed, rule_of
from jobs.files.gettext.portable_objects import FORMAT

HEADER = """# A catalogue.
msgid ""
msgstr ""
"Project-Id-Version: kv 1\\n"
"Language: \\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""
CATALOGUE = (
    HEADER
    + """#. of a button
#: web/page.py:12
#, python-format
msgctxt "menu"
msgid "Open %s"
msgstr ""

#| msgid "an older one"
msgid "One "
"line\\n"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""

msgid "done"
msgstr "fertig"

#~ msgid "gone"
#~ msgstr "weg"
"""
)


def translated(content: str, *texts: str | None, language: str | None = None, **options) -> str:
    return FORMAT.read(content.encode(), **options).write(texts, language).decode()


def translations(content: bytes) -> dict[str, list[str]]:
    entries = entries_of(content.decode())
    return {entry.message("msgid").text: [message.text for message in entry.translations] for entry in entries}


def test_messages_without_a_translation_are_units_with_their_context_and_all_with_again():
    units = FORMAT.read(CATALOGUE.encode()).units

    assert [(unit.name, unit.text) for unit in units] == [
        ("2", "Open %s"),
        ("3", "One line\n"),
        ("4[0]", "%d file"),
        ("4[1]", "%d files"),
    ]
    assert units[0].context == "menu\nof a button"
    assert FORMAT.read(CATALOGUE.encode(), again=True).units[-1].text == "done"


def test_what_is_written_is_fuzzy_and_all_else_stays():
    written = translated(CATALOGUE, "Öffne %s", "Eine Zeile", None, None)

    expected = (
        CATALOGUE.replace("#, python-format", "#, fuzzy, python-format")
        .replace('"Open %s"\nmsgstr ""', '"Open %s"\nmsgstr "Öffne %s"')
        .replace("#| msgid", "#, fuzzy\n#| msgid")
        .replace('"line\\n"\nmsgstr ""', '"line\\n"\nmsgstr "Eine Zeile\\n"')
        .replace('8bit\\n"\n', '8bit\\n"\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n')
    )
    assert written == expected


@pytest.mark.parametrize(
    ("language", "texts"),
    [
        ("ja", ["%d files"]),
        ("de", ["%d file", "%d files"]),
        ("pl", ["%d file", "%d files", "%d files"]),
        ("ar", ["%d files", "%d file", "%d files", "%d files", "%d files", "%d files"]),
    ],
)
def test_there_is_a_unit_a_plural_form_of_the_target_and_the_header_says_its_rule(language, texts):
    file = FORMAT.read(CATALOGUE.encode(), target_language=language)
    assert [unit.text for unit in file.units][2:] == texts

    written = file.write(["a", "b", *map(str, range(len(texts)))], language)

    assert translations(written)["%d file"] == [str(form) for form in range(len(texts))]
    assert f'"Language: {language}\\n"' in written.decode()
    assert f'"Plural-Forms: nplurals={len(texts)}; ' in written.decode()


def test_the_rule_of_the_header_holds_unless_it_is_of_another_language():
    own = "nplurals=4; plural=(n==1 ? 0 : 3);"
    content = CATALOGUE.replace("Language: \\n", "Language: pl\\n").replace(
        "8bit\\n", f'8bit\\n"\n"Plural-Forms: {own}\\n'
    )

    def num_forms(language: str | None) -> int:
        units = FORMAT.read(content.encode(), target_language=language).units
        return sum(unit.name.startswith("4[") for unit in units)

    assert (num_forms(None), num_forms("pl-PL"), num_forms("de")) == (4, 4, 2)


@pytest.mark.parametrize("rule", ["nplurals=INTEGER; plural=EXPRESSION;", "nplurals=999999; plural=0;", "", "((((("])
def test_what_is_no_plural_rule_is_none(rule):
    assert parsed(rule) is None
    assert parsed("nplurals=2; plural=" + "(" * 100_000 + "n;") is None
    assert rule_of("tlh").num_forms == 2


def test_a_template_gets_a_charset_and_a_file_without_header_gets_one():
    template = CATALOGUE.replace("charset=UTF-8", "charset=CHARSET").replace("8bit", "ENCODING")
    assert "charset=UTF-8" in translated(template, "ö", None, None, None)
    assert "Encoding: 8bit" in translated(template, "ö", None, None, None)

    bare = translated('# first\nmsgid "a"\nmsgstr ""\n', "ä", language="pt-BR")

    assert bare.startswith('msgid ""\nmsgstr ""\n"MIME-Version: 1.0\\n"\n')
    assert '"Language: pt_BR\\n"\n\n# first\n#, fuzzy\nmsgid "a"\nmsgstr "ä"' in bare


def test_a_new_header_stands_in_front_of_the_first_message_and_its_flag():
    written = translated('msgid "a"\nmsgstr ""\n', "b", language="de")
    assert written.startswith('msgid ""\n')
    assert written.endswith('\n\n#, fuzzy\nmsgid "a"\nmsgstr "b"\n')


def test_a_translation_is_wrapped_as_gettext_wraps():
    long = "word " * 30 + "end"
    lines = translated('msgid "a"\nmsgstr ""\n', long).split("\n")
    start = lines.index('msgid "a"') + 1
    assert lines[start] == 'msgstr ""'
    assert all(len(line) <= 79 for line in lines)
    assert len(lines[start + 1]) > 74


def test_line_ends_of_windows_and_an_older_encoding_are_kept():
    content = HEADER.replace("UTF-8", "ISO-8859-2").replace("\n", "\r\n") + 'msgid "x"\r\nmsgstr ""\r\n'
    file = FORMAT.read(content.encode())

    written = file.write(["ł and\nmore"])

    assert written.endswith('#, fuzzy\r\nmsgid "x"\r\nmsgstr ""\r\n"ł and\\n"\r\n"more"\r\n'.encode("iso-8859-2"))
    with pytest.raises(SpecError, match="lacks '字'"):
        file.write(["字"])


def test_a_character_that_would_be_written_as_another_is_refused():
    file = FORMAT.read(f"""{HEADER.replace("UTF-8", "EUC-JP")}msgid "x"\nmsgstr ""\n""".encode())

    with pytest.raises(SpecError, match="lacks '¥'"):
        file.write(["5 ¥"])


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'msgid "a"\nmsgstr "b', 2),
        (b'msgid "a"\n\nmsgid "b"\nmsgstr ""', 1),
        (b'\n"alone"', 2),
        (b'msgid "a"\nmsgid_plural "b"\nmsgstr[0] ""\nmsgstr[999999999] ""', 4),
        (b'msgid "a"\nmsgstr "\xff"', 2),
        (b"\0" * 9, 1),
        (b"msgid\nmsgstr", 1),
    ],
)
def test_a_broken_file_is_refused_with_its_line(content, line):
    with pytest.raises(CorpusError, match=f"line {line}:"):
        FORMAT.read(content)


@pytest.mark.parametrize("part", ['""', "\\\\", "#", "[", '"\n"', "msgid ", "#~ x\n"])
def test_a_file_of_one_endless_thing_is_read_or_refused_in_linear_time(part):
    with pytest.raises(CorpusError) as refused:
        FORMAT.read(b'msgid "' + part.encode() * 100_000)
    assert len(str(refused.value)) < 200


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1).filter(str.strip)
PIECES = st.sampled_from(
    f"""{HEADER}|msgid "a"\n|msgid "b" "c"\r\n|msgstr ""\n|msgstr "x"\n|# c\n|#, fuzzy\n|#~ msgid\n|\n|msgctxt "m"\n|
|msgid_plural "p"\n|msgstr[0] ""\n|msgstr[1] ""\n|"\\303\\q\\x41"\n""".split("|")
)


@given(st.lists(PIECES).map("".join), st.binary(), st.booleans(), st.sampled_from([None, "ja", "ar"]))
def test_a_file_whose_texts_do_not_change_comes_back_byte_for_byte(text, noise, again, language):
    for content in (text.encode(), noise, b"\xef\xbb\xbf" + text.encode()):
        try:
            file = FORMAT.read(content, again=again, target_language=language)
        except CorpusError:
            continue
        assert file.write([unit.text for unit in file.units]) == content
        assert file.write([None] * len(file.units)) == content
        assert len({unit.name for unit in file.units}) == len(file.units)


@given(st.lists(TEXTS, min_size=4, max_size=4), st.booleans())
def test_a_translation_that_is_written_is_read_again(texts, again):
    written = FORMAT.read(CATALOGUE.encode(), target_language="de").write(texts, "de")

    one, two, *forms = [text.strip("\n") for text in texts]
    assert translations(written) | {"": []} == {
        "": [],
        "Open %s": [one],
        "One line\n": [two + "\n"],
        "%d file": forms,
        "done": ["fertig"],
    }
    assert FORMAT.read(written, target_language="de").units == []

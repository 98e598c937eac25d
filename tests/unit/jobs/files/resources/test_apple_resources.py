r"""Apple's .strings, .stringsdict and .xcstrings."""

import json
import plistlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import CorpusError, SpecError
from jobs.files.resources.apple_strings import FORMAT as STRINGS
from jobs.files.resources.string_catalog import FORMAT as CATALOG
from jobs.files.resources.stringsdict import FORMAT as DICT

FILE = r"""/* Of a "button" */
"open" = "Open \"%@\"\n\U00e9";
// two
// lines
title = Plain ; "number" = "12";
'single' = 'It\'s';
"only a key";
"open"="again";
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_values_of_strings_are_units_and_all_else_stays(encoding):
    content = FILE.encode(encoding)
    file = STRINGS.read(content)
    assert [(unit.name, unit.text, unit.context) for unit in file.units] == [
        ("open", 'Open "%@"\né', 'Of a "button"'),
        ("title", "Plain", "two\nlines"),
        ("single", "It's", None),
        ("open (2)", "again", None),
    ]
    assert file.write([unit.text for unit in file.units]) == content
    changed = FILE.replace(r'"Open \"%@\"\n\U00e9"', r'"\"Ö\"\n\\"').replace("Plain", '"Titel"')
    assert file.write(['"Ö"\n\\', "Titel", None, None], "de").decode(encoding) == changed


@pytest.mark.parametrize(
    "content",
    [b"bplist00\x01", b"<?xml version='1.0'?><plist/>", b'"a" = "b"', b'"a" "b";', b'"a" = ;', b"/* a", b'"a" = "b\\";',
     b"{a = b;}", FILE.encode("utf-16-le"), b"\xff", b'"a" = "' + b"x" * 1_000_000, b"/*" * 100_000],
)  # fmt: skip
def test_what_is_no_file_of_strings_is_refused(content):
    with pytest.raises(CorpusError) as refused:
        STRINGS.read(content)
    assert len(str(refused.value)) < 200


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")), st.sampled_from(["utf-8", "utf-16"]))
def test_a_value_that_is_written_is_read_again(text, encoding):
    written = STRINGS.read('"a" = "One";'.encode(encoding)).write([f"{text} one"])
    assert [unit.text for unit in STRINGS.read(written).units] == [f"{text} one"]


PLURALS = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
\t<key>files</key>
\t<dict>
\t\t<key>NSStringLocalizedFormatKey</key>
\t\t<string>%1$#@n@ &amp; more</string>
\t\t<key>n</key>
\t\t<dict>
\t\t\t<key>NSStringFormatSpecTypeKey</key>
\t\t\t<string>NSStringPluralRuleType</string>
\t\t\t<key>NSStringFormatValueTypeKey</key>
\t\t\t<string>d</string>
\t\t\t<key>zero</key>
\t\t\t<string>no file</string>
\t\t\t<key>one</key>
\t\t\t<string>%d file</string>
\t\t\t<key>other</key>
\t\t\t<string>%d files</string>
\t\t</dict>
\t</dict>
</dict>
</plist>
"""


def test_plurals_of_a_stringsdict_are_those_of_the_target_language_and_zero_stays():
    file = DICT.read(PLURALS.encode(), target_language="ru")
    names = ["files", *(f"files.n[{each}]" for each in ("zero", "one", "few", "many", "other"))]
    assert [unit.name for unit in file.units] == names
    assert file.write([unit.text for unit in file.units]) == PLURALS.encode()
    found = plistlib.loads(file.write(["<ещё>", *"01234"], "ru"))["files"]
    assert found["NSStringLocalizedFormatKey"] == "<ещё>"
    plural = {"zero": "0", "one": "1", "few": "2", "many": "3", "other": "4"}
    kinds = {"NSStringFormatSpecTypeKey": "NSStringPluralRuleType", "NSStringFormatValueTypeKey": "d"}
    assert found["n"] == kinds | plural
    assert list(found["n"]) == [*kinds, *plural]
    of_zh = DICT.read(PLURALS.encode(), target_language="zh")
    assert list(plistlib.loads(of_zh.write(list("abc"), "zh"))["files"]["n"])[2:] == ["zero", "other"]


@pytest.mark.parametrize(
    "content",
    [b"bplist00", b"<plist/>", b"<a><dict/></a>",
     b"<plist>" + b"<dict><key>a</key>" * 20 + b"</dict>" * 20 + b"</plist>",
     b"<!DOCTYPE plist [<!ENTITY a 'b'>]><plist><dict/></plist>"],
)  # fmt: skip
def test_other_property_lists_are_refused(content):
    with pytest.raises(CorpusError):
        DICT.read(content)


def unit_of(value: str, state: str = "translated") -> dict:
    return {"stringUnit": {"state": state, "value": value}}


FILES_OF = {"one": unit_of("%lld file"), "other": unit_of("%lld files")}
STRINGS_OF = {
    "%lld files": {"localizations": {"en": {"variations": {"plural": FILES_OF}}}},
    "Close": {"extractionState": "stale"},
    "Empty": {},
    "Kept": {"shouldTranslate": False},
    "Open": {"comment": "Of a button", "localizations": {"af": unit_of("Oop"), "fr": unit_of("Ouvrir")}},
    "There": {"localizations": {"de": unit_of("Da"), "pl": unit_of("Tam"), "ru": unit_of("There", "new")}},
}
SHAPES = {
    "xcode": json.dumps(
        {"sourceLanguage": "en", "strings": STRINGS_OF, "version": "1.0"}, indent=2, separators=(",", " : ")
    ),
    "tight": json.dumps({"sourceLanguage": "en", "strings": STRINGS_OF, "version": "1.0"}),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("language", "categories"), [("ru", ["one", "few", "many", "other"]), ("zh", ["other"])])
def test_a_catalog_gets_the_localization_of_the_target_language(shape, language, categories):
    content = SHAPES[shape]
    file = CATALOG.read(content.encode(), target_language=language)
    assert file.write([unit.text for unit in file.units]) == content.encode()
    assert [unit.context for unit in file.units if unit.name == "Open"] == ["Of a button"]

    found = file.write([f"{unit.name}!" for unit in file.units], language).decode()

    strings = json.loads(found)["strings"]
    plural = strings["%lld files"]["localizations"].pop(language)["variations"]["plural"]
    assert plural == {each: unit_of(f"%lld files[{each}]!", "needs_review") for each in categories}
    for name in ("Empty", "Open", "There"):
        assert strings[name]["localizations"].pop(language) == unit_of(f"{name}!", "needs_review")
    assert list(strings["Open"]["localizations"]) == ["af", "fr"]
    assert strings.pop("Empty") == {"localizations": {}}
    before = json.loads(content)["strings"]
    before["There"]["localizations"].pop(language, None)
    assert strings == {key: value for key, value in before.items() if key != "Empty"}
    assert list(CATALOG.read(found.encode(), target_language=language).units) == []
    if shape == "xcode":  # as Xcode writes it
        assert found == json.dumps(json.loads(found), indent=2, separators=(",", " : "))
        assert list(json.loads(found)["strings"]["Open"]["localizations"]) == sorted(["af", "fr", language])


def test_a_unit_without_a_translation_is_new_in_its_localization():
    file = CATALOG.read(SHAPES["xcode"].encode(), target_language="de")
    texts = ["Datei" if unit.name == "%lld files[one]" else None for unit in file.units]
    found = json.loads(file.write(texts, "de"))["strings"]
    plural = found["%lld files"]["localizations"]["de"]["variations"]["plural"]
    assert plural == {"one": unit_of("Datei", "needs_review"), "other": unit_of("%lld files", "new")}
    assert "de" not in found["Open"]["localizations"]


def test_a_catalog_needs_a_target_language_and_its_own_shape():
    file = CATALOG.read(SHAPES["tight"].encode())
    with pytest.raises(SpecError):
        file.write(["x"] * len(file.units))
    for content in (b"{}", b"[]", b'{"strings": {}}', b"\xff", b'{"a":' * 300_000):
        with pytest.raises(CorpusError):
            CATALOG.read(content)

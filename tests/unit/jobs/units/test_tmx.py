"""TMX: what a program for translators wrote is read, what kvjobs writes comes back, and a hostile file is refused."""

import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.units.tmx import read_tmx, write_tmx
from jobs.units.translation_unit import BadUnit, TranslationUnit, UnitFileError, UnitLanguages

ANY = UnitLanguages()
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), min_size=1
).filter(str.strip)


def read(text: str | bytes, languages: UnitLanguages = ANY) -> list[TranslationUnit | BadUnit]:
    return list(read_tmx(io.BytesIO(text.encode() if isinstance(text, str) else text), languages))


def file_of(*units: str, srclang: str = "en") -> str:
    return f'<tmx version="1.4">\n<header srclang="{srclang}"/>\n<body>\n' + "\n".join(units) + "\n</body></tmx>"


def unit_of(**texts: str) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{seg}</seg></tuv>' for code, seg in texts.items()) + "</tu>"


@given(st.lists(st.builds(TranslationUnit, TEXTS, TEXTS, st.just("en"), st.sampled_from(["de", "zh-TW"]))))
def test_units_that_are_written_come_back(units: list[TranslationUnit]) -> None:
    written = io.BytesIO()

    assert write_tmx(units, "en", written.write) == len(units)
    stripped = [TranslationUnit(unit.source.strip(), unit.target.strip(), "en", unit.target_language) for unit in units]
    assert read(written.getvalue()) == stripped


def test_each_other_language_of_a_unit_is_one_and_a_given_one_alone() -> None:
    text = file_of(unit_of(de="Regen.", en="Rain.", fr="Pluie."))

    assert read(text) == [
        TranslationUnit("Rain.", "Regen.", "en", "de"),
        TranslationUnit("Rain.", "Pluie.", "en", "fr"),
    ]
    assert read(text, UnitLanguages(target="fr")) == [TranslationUnit("Rain.", "Pluie.", "en", "fr")]
    assert read(text, UnitLanguages("fr", "en")) == [TranslationUnit("Pluie.", "Rain.", "fr", "en")]


def test_the_source_language_is_the_units_own_then_the_headers_and_regions_do_not_matter() -> None:
    units = read(
        file_of('<tu srclang="de">' + unit_of(en="Rain.", de="Regen.")[4:], unit_of(**{"en-GB": "a", "de": "b"}))
    )

    assert units == [TranslationUnit("Regen.", "Rain.", "de", "en"), TranslationUnit("a", "b", "en-GB", "de")]
    assert isinstance(read(file_of(unit_of(en="a", de="b"), srclang="*all*"))[0], BadUnit)


def test_inline_codes_are_text_and_footnotes_in_them_are_not() -> None:
    seg = "A <bpt i='1'>&lt;b&gt;</bpt>fine<ept i='1'>&lt;/b&gt;</ept> <hi>day<ph>{x}<sub>a note</sub></ph></hi>."

    assert read(file_of(unit_of(en=seg, de="x")))[0] == TranslationUnit("A <b>fine</b> day{x}.", "x", "en", "de")


def test_files_of_other_programs_have_a_doctype_another_encoding_and_the_older_attribute() -> None:
    text = '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">' + file_of(unit_of(en="é", de="ü"))

    assert read(text.replace("xml:lang", "lang").encode("utf-16")) == [TranslationUnit("é", "ü", "en", "de")]


@pytest.mark.parametrize(
    "unit",
    [
        unit_of(en="a"),
        unit_of(de="a"),
        unit_of(en=" ", de="a"),
        "<tu><tuv><seg>a</seg></tuv></tu>",
        unit_of(**{"en": "a", "d e": "b"}),
    ],
)
def test_a_unit_that_cannot_be_read_is_rejected_with_its_line_and_the_others_are_read(unit: str) -> None:
    first, second = read(file_of(unit, unit_of(en="a", de="b")))

    assert isinstance(first, BadUnit)
    assert first.line == 4
    assert second == TranslationUnit("a", "b", "en", "de")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html/>",
        file_of("<tu>"),
        '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>' + file_of(unit_of(en="&b;", de="b")),
        '<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + file_of(unit_of(en="&a;", de="b")),
        '<!DOCTYPE tmx [<!ENTITY % a SYSTEM "http://127.0.0.1/"> %a;]>' + file_of(unit_of(en="a", de="b")),
        file_of("<tu>" + "<prop>" * 1_000_000),
    ],
    ids=["empty", "another root", "never closed", "entities", "a file", "an address", "nested"],
)
def test_a_broken_or_hostile_file_is_refused(text: str) -> None:
    with pytest.raises(UnitFileError):
        read(text)


def test_a_text_of_many_megabytes_is_rejected_and_not_kept() -> None:
    started = time.monotonic()

    (bad,) = read(file_of(unit_of(en="a" * 20_000_000, de="b")))

    assert isinstance(bad, BadUnit)
    assert time.monotonic() - started < 10

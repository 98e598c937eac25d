"""Units as tab-separated values."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.units.translation_unit import BadUnit, TranslationUnit, UnitFileError, UnitLanguages
from jobs.units.tsv import read_tsv, write_tsv

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)
EN_DE = UnitLanguages("en", "de")


def read(text: str | bytes, languages: UnitLanguages = EN_DE) -> list[TranslationUnit | BadUnit]:
    return list(read_tsv(io.BytesIO(text.encode() if isinstance(text, str) else text), languages))


@given(st.lists(st.builds(TranslationUnit, TEXTS, TEXTS, st.just("en"), st.sampled_from(["de", "zh-TW"]))))
def test_units_that_are_written_come_back(units: list[TranslationUnit]) -> None:
    written = io.BytesIO()

    assert write_tsv(units, written.write) == len(units)
    stripped = [TranslationUnit(unit.source.strip(), unit.target.strip(), "en", unit.target_language) for unit in units]
    assert read(written.getvalue(), UnitLanguages()) == stripped


def test_quotation_marks_are_text_and_the_languages_are_those_that_are_given() -> None:
    assert read('"Rain," he said.\t„Regen“\r\n\n') == [TranslationUnit('"Rain," he said.', "„Regen“", "en", "de")]


def test_columns_may_stand_in_any_order_and_other_languages_are_passed_over() -> None:
    text = "target_language\tnote\ttarget\tsource\nde\tx\tRegen\train\nfr\tx\tpluie\train\n"

    assert read(text) == [TranslationUnit("rain", "Regen", "en", "de")]
    assert len(read(text, UnitLanguages(source="en"))) == 2


@pytest.mark.parametrize("line", ["no tab", "\tb", "a\t ", b"\xff\ta"])
def test_a_line_that_is_no_unit_is_rejected_with_its_number(line: str | bytes) -> None:
    first, second = read(b"a\tb\n" + (line.encode() if isinstance(line, str) else line) + b"\n")

    assert isinstance(first, TranslationUnit)
    assert isinstance(second, BadUnit)
    assert second.line == 2


def test_a_file_that_does_not_say_its_languages_is_refused_where_they_are_not_given() -> None:
    with pytest.raises(UnitFileError, match="--target-language"):
        read("a\tb\n", UnitLanguages(source="en"))


def test_a_line_without_end_is_passed_over_in_parts() -> None:
    first, second = read(b"a" * 30_000_000 + b"\tb\na\tb\n")

    assert isinstance(first, BadUnit)
    assert second == TranslationUnit("a", "b", "en", "de")

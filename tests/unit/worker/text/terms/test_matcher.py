"""Terms in texts: the longest, whole words where a script has words, by case, in any form of Unicode."""

import itertools
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from jobs.terms.glossary import read_glossary
from jobs.terms.term import Term
from worker.text.terms.matcher import TermMatcher, has_target
from worker.text.terms.words import units


def found(glossary: str, text: str) -> list[str]:
    """The texts that are terms, as they stand in `text`."""
    return [text[match.start : match.stop] for match in TermMatcher(read_glossary(glossary).terms()).find(text)]


def holds(target: str, text: str, **how: bool) -> bool:
    return has_target(Term("x", tuple(target.split("|")), **how), units(text))


def test_the_longest_term_is_found_and_none_within_it() -> None:
    terms = "rain\tx\nheavy rain\tx\nheavy rain warning\tx\nwarning area\tx"

    assert found(terms, "A heavy\nrain warning area: rain, heavy RAIN.") == [
        "heavy\nrain warning",
        "rain",
        "heavy RAIN",
    ]


def test_a_term_is_whole_words_unless_it_may_be_a_part_of_one() -> None:
    assert found("rain\tx", "Trains, raincoat, rain-coat, rain's") == ["rain", "rain"]
    assert found("regen\tx\t\t\tpart", "Starkregen und Regenfall") == ["Starkregen", "Regenfall"]


def test_scripts_without_spaces_are_matched_by_characters() -> None:
    assert found("暴雨\tx\n雨\tx", "今天有暴雨和小雨。") == ["暴雨", "雨"]
    assert found("ฝน\tx", "มีฝนตกหนัก") == ["ฝน"]
    assert found("雨\tx", "Rain雨rain") == ["雨"]


def test_a_term_in_its_own_letters_is_found_in_these_alone() -> None:
    assert found("US\tx\nus\ty", "US and us") == ["US", "us"]
    assert found("Apple\tx\t\tsensitive", "An apple by Apple") == ["Apple"]
    assert found("Straße\tx", "STRASSE") == ["STRASSE"]


def test_the_forms_of_unicode_are_one() -> None:
    composed, parted = (unicodedata.normalize(form, "Café") for form in ("NFC", "NFD"))

    assert found(f"{composed}\tx", f"a {parted}.") == [parted]
    assert found("ABC\tx", "ＡＢＣ") == ["ＡＢＣ"]
    assert holds(parted, f"ein {composed}")


def test_a_target_is_held_by_one_of_its_forms_as_whole_words() -> None:
    assert holds("Regen|Regens", "Wegen REGENS gesperrt.")
    assert not holds("Regen", "Wegen Regenfalls gesperrt.")
    assert holds("Regen", "Wegen Regenfalls gesperrt.", is_whole=False)
    assert not holds("Berlin", "in berlin", target_is_cased=True)
    assert holds("Berlin", "在Berlin有雨")
    assert holds("小雨", "有小雨。")
    assert not holds("小雨", "小。雨")


@given(
    st.lists(st.text("ab 雨é", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=6),
    st.text("ab 雨é.", max_size=30),
    st.booleans(),
)
def test_matches_are_in_order_and_apart(sources: list[str], text: str, is_whole: bool) -> None:
    matches = TermMatcher(Term(source.strip(), ("x",), is_whole=is_whole) for source in sources).find(text)

    assert all(first.stop <= second.start for first, second in itertools.pairwise(matches))
    for match in matches:
        own = "".join(unit.folded for unit in units(text[match.start : match.stop]))
        wanted = "".join(unit.folded for unit in units(match.term.source))
        assert own == wanted if is_whole else wanted in own

"""Which of a model's languages a user means."""

import pytest

from jobs.errors import SpecError
from worker.text.translation.language_codes import find_language, may_be_same

FLORES = ("arb_Arab", "deu_Latn", "eng_Latn", "nno_Latn", "nob_Latn", "srp_Cyrl", "zho_Hans", "zho_Hant", "ace_Latn")
M2M100 = ("ar", "de", "en", "no", "ns", "sr", "zh")
MBART = ("de_DE", "en_XX", "zh_CN")


@pytest.mark.parametrize(
    ("wanted", "codes", "found"),
    [
        ("eng_Latn", FLORES, "eng_Latn"),
        ("ENG-latn", FLORES, "eng_Latn"),
        ("en", FLORES, "eng_Latn"),
        ("eng", FLORES, "eng_Latn"),
        ("en-GB", FLORES, "eng_Latn"),
        ("zh-Hant", FLORES, "zho_Hant"),
        ("ar", FLORES, "arb_Arab"),
        ("nob", FLORES, "nob_Latn"),
        ("ace", FLORES, "ace_Latn"),
        ("zh", M2M100, "zh"),
        ("zho_Hans", M2M100, "zh"),
        ("nob_Latn", M2M100, "no"),
        ("nso", M2M100, "ns"),
        ("en", MBART, "en_XX"),
        ("zho_Hans", MBART, "zh_CN"),
    ],
)
def test_a_language_is_found_by_any_of_its_codes(wanted: str, codes: tuple[str, ...], found: str) -> None:
    assert find_language(wanted, codes, "target") == found


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("zh", "the target language 'zh' can be zho_Hans or zho_Hant in this model: name one of them"),
        ("no", "the target language 'no' can be nno_Latn or nob_Latn in this model: name one of them"),
        ("eng_Cyrl", "this model has no target language 'eng_Cyrl'; it has .*eng_Latn"),
        ("xx", "this model has no target language 'xx'; it has ace_Latn, "),
        ("", "this model has no target language ''; it has ace_Latn, "),
    ],
)
def test_a_code_of_several_languages_or_of_none_is_refused_with_the_choices(wanted: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        find_language(wanted, FLORES, "target")


@pytest.mark.parametrize(
    ("code", "other", "same"),
    [
        ("en", "en-GB", True),
        ("eng_Latn", "en", True),
        ("en_XX", "en-US", True),
        ("zh", "zh-TW", True),
        ("zh_Hans", "zh-CN", True),
        ("zho_Hant", "zh-CN", False),
        ("pt-BR", "pt-PT", False),
        ("en", "de", False),
    ],
)
def test_codes_may_mean_one_language_unless_both_name_another_script_or_region(
    code: str, other: str, same: bool
) -> None:
    assert may_be_same(code, other) == may_be_same(other, code) == same

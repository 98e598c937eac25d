"""The languages of a job, by its options and the name of its model."""

import pytest

from jobs.routing.language_pair import language_pair


@pytest.mark.parametrize(
    ("job", "pair"),
    [
        (("demo-en-zh", "en", None), ("en", "zh")),
        (("Helsinki-NLP/opus-mt-tc-big-en-pt", "en", None), ("en", "pt")),
        (("opus-mt-en-de-int8", "en", None), ("en", "de")),
        (("opus-mt-de-en", "en", None), ("de", "en")),
        (("nllb-200", "deu_Latn", "fra_Latn"), ("deu_Latn", "fra_Latn")),
        (("opus-mt-en-zh", "en", ">>yue_Hant<<"), ("en", "yue_Hant")),
        (("demo-en-zh.v2", "de", None), ("en", "zh")),
        (("opus-mt-eng-fra", "de", None), ("eng", "fra")),
        (("/models/from-de-fr/opus-mt-en-zh/", "en", None), ("en", "zh")),
        (("opus-mt-tc-big", "en", None), None),
        (("/models/from-de-fr/nllb", "en", None), None),
        (("m2m100", "en", None), None),
    ],
)
def test_a_job_is_between_the_languages_of_its_options_or_of_its_models_name(
    job: tuple[str, str, str | None], pair: tuple[str, str] | None
) -> None:
    assert language_pair(*job) == pair

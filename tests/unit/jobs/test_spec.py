"""A job's options as text: it distinguishes jobs, and it is a part of the key of the translation memory."""

import dataclasses
import hashlib
import json
from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.spec import JobSpec
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions


def spec(**options: Any) -> JobSpec:
    return JobSpec(task=Task.TRANSLATE, model="m", model_revision="r", options=TranslateOptions(**options))


def test_newer_options_at_their_defaults_do_not_change_the_text_of_a_job() -> None:
    assert spec().options_json() == (
        '{"beam_size":null,"cache":"auto","early_stopping":null,"length_penalty":null,'
        '"max_new_tokens":null,"n_best":1,"reuse":true,"source_language":"en","target_language":null,"timing":"steps"}'
    )


@pytest.mark.parametrize("options", [TranslateOptions, GenerateOptions])
def test_a_batch_size_that_the_engine_chooses_makes_the_job_and_the_memories_of_the_earlier_default(
    options: type[TranslateOptions | GenerateOptions],
) -> None:
    task = Task.TRANSLATE if options is TranslateOptions else Task.GENERATE
    chosen, given, other = (
        JobSpec(task=task, model="m", model_revision="r", options=options(batch_size=size)) for size in (None, 32, 33)
    )

    assert '"batch_size"' not in chosen.options_json()
    assert '"batch_size":32' in given.options_json()
    assert chosen.digest() == given.digest() != other.digest()
    assert chosen.memory_digest() == given.memory_digest() != other.memory_digest()


def test_a_newer_option_is_in_the_text_if_it_has_an_effect() -> None:
    allowed = spec(allow_pad=True)
    row = {"task": allowed.task, "model": allowed.model, "model_revision": allowed.model_revision}

    assert JobSpec.restore(**row, options_json=allowed.options_json()) == allowed
    assert JobSpec.restore(**row, options_json=spec().options_json()) == spec()
    assert allowed.digest() != spec().digest()
    assert allowed.memory_digest() != spec().memory_digest()


def test_a_job_with_alignments_is_another_one_that_shares_the_memory() -> None:
    assert spec(alignments=True).digest() != spec().digest()
    assert spec(alignments=True).memory_digest() == spec().memory_digest()


def test_the_source_language_of_pairs_is_part_of_the_job_and_of_the_memory_key() -> None:
    english, german = (
        JobSpec(task=Task.SCORE, model="m", model_revision="r", options=ScoreOptions(pairs=True, source_language=one))
        for one in ("en", "de")
    )

    assert "source_language" not in english.options_json(), "as before there was such an option"
    assert english.digest() != german.digest()
    assert english.memory_digest() != german.memory_digest()


def test_memory_entries_that_lack_duplicate_hypotheses_are_not_reused() -> None:
    """Earlier versions dropped hypotheses of equal text, and their memory key did not show it."""
    several = spec(n_best=3)
    as_before = dataclasses.replace(several, options=dataclasses.replace(several.options, n_best=1))

    assert several.memory_digest() not in (as_before.memory_digest(), _digest_of_an_earlier_version(several))
    assert as_before.memory_digest() == _digest_of_an_earlier_version(as_before)


def _digest_of_an_earlier_version(spec: JobSpec) -> bytes:
    values = {**json.loads(spec.options_json()), "batch_size": 32}
    for name in ("source_language", "reuse", "timing"):
        values.pop(name)
    return hashlib.sha256(f"{spec.model_revision}\n{json.dumps(values, sort_keys=True)}".encode()).digest()


def test_a_choice_that_only_a_newer_version_knows_is_refused_by_name() -> None:
    stored = JobSpec(task=Task.SCORE, model="m", model_revision="r", options=ScoreOptions()).options_json()

    with pytest.raises(SpecError, match=r"^window is 'spiral'"):
        JobSpec.restore(
            task="score",
            model="m",
            model_revision="r",
            options_json=stored.replace('"window":"stride"', '"window":"spiral"'),
        )

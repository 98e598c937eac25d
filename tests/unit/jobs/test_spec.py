"""What a job's options are as text: what tells one job from another, and what a translation memory goes by."""

import dataclasses
import hashlib
import json
from typing import Any

from jobs.spec import JobSpec, Task, TranslateOptions


def spec(**options: Any) -> JobSpec:
    return JobSpec(task=Task.TRANSLATE, model="m", model_revision="r", options=TranslateOptions(**options))


def test_options_that_came_later_and_do_nothing_leave_a_job_the_one_that_it_was() -> None:
    assert spec().options_json() == (
        '{"batch_size":32,"beam_size":null,"cache":"auto","early_stopping":null,"length_penalty":null,'
        '"max_new_tokens":null,"n_best":1,"reuse":true,"source_language":"en","target_language":null,"timing":"steps"}'
    )


def test_an_option_that_came_later_is_kept_where_it_does_something() -> None:
    allowed = spec(allow_pad=True)
    row = {"task": allowed.task, "model": allowed.model, "model_revision": allowed.model_revision}

    assert JobSpec.restore(**row, options_json=allowed.options_json()) == allowed
    assert JobSpec.restore(**row, options_json=spec().options_json()) == spec()
    assert allowed.digest() != spec().digest()
    assert allowed.memory_digest() != spec().memory_digest()


def test_the_memory_does_not_give_segments_of_which_equal_texts_were_left_out() -> None:
    """Earlier versions did that, and went by the options alone."""
    several = spec(n_best=3)
    as_before = dataclasses.replace(several, options=dataclasses.replace(several.options, n_best=1))

    assert several.memory_digest() not in (as_before.memory_digest(), _digest_of_an_earlier_version(several))
    assert as_before.memory_digest() == _digest_of_an_earlier_version(as_before)


def _digest_of_an_earlier_version(said: JobSpec) -> bytes:

    values = json.loads(said.options_json())
    for name in ("source_language", "reuse", "timing"):
        values.pop(name)
    return hashlib.sha256(f"{said.model_revision}\n{json.dumps(values, sort_keys=True)}".encode()).digest()

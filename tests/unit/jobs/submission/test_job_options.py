"""The options of a submit, from plain values, as JSON has them."""

import pytest

from jobs.errors import SpecError
from jobs.submission.job_options import OF_EVERY_JOB, JobOptions, SubmitRequest
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kinds import every_option
from jobs.tasks.task import Task
from jobs.tolerance import Tolerance


def test_plain_values_make_the_options_of_the_job_and_of_its_task() -> None:
    request = SubmitRequest.read(
        {
            "task": "generate",
            "model": "m",
            "priority": "high",
            "max_text": "2M",
            "max_rejected": 3,
            "columns": ["a", "b"],
        }
        | {"temperature": 0.5, "stop": ["."]}
    )

    assert request.job == JobOptions(
        task=Task.GENERATE,
        model="m",
        priority=10,
        max_text=2 << 20,
        max_rejected=Tolerance(lines=3),
        columns=("a", "b"),
    )
    assert request.read_task_options() == GenerateOptions(temperature=0.5, stop=(".",))


@pytest.mark.parametrize("values", [{"modle": "m"}, {"name": 5}, {"strict": "yes"}, {"columns": 3}, {"then": [1]}])
def test_a_value_that_an_option_cannot_have_names_the_option(values: dict[str, object]) -> None:
    (name,) = values
    with pytest.raises(SpecError, match=name):
        SubmitRequest.read(values)


def test_no_option_of_a_task_has_the_name_of_an_option_of_every_job() -> None:
    assert not OF_EVERY_JOB.keys() & every_option().keys()

"""Each option of a submit has one name on every face: command line, Python, HTTP, and the page of a new job."""

import pytest

from jobs.cli.commands.submit import submit
from jobs.submission.job_options import OF_EVERY_JOB, SubmitRequest
from jobs.tasks.kinds import KINDS, every_option
from jobs.tasks.task import Task
from jobs.web.api.submit_options import OF_SUBMIT
from jobs.web.pages import new_job


@pytest.mark.parametrize("task", Task)
def test_the_options_of_a_task_have_the_same_names_everywhere(task: Task) -> None:
    declared = {**OF_EVERY_JOB, **KINDS[task].offered}

    for name, option in declared.items():
        SubmitRequest.read({"task": task.value, name: task.value if name == "task" else option.default})
    assert declared.keys() <= {parameter.name for parameter in submit.params}
    assert declared.keys() - {"run"} <= OF_SUBMIT.keys()  # a run is a file beside a folder
    assert {*new_job.OF_TASKS[task]} <= declared.keys()
    assert {*new_job.OF_ALL} <= {**OF_EVERY_JOB, **every_option()}.keys()

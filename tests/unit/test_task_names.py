"""What depends on a task is asked of its Kind: few files name one."""

import re

from tests.places import CHECKOUT

NAMES = re.compile(r"\bTask\.[A-Z]|\bmatch [a-z_.]*options\b")
ROOMS = ("jobs/tasks/", "worker/engine/tasks/", "worker/providers/")  # what each does with a task, or cannot do
BESIDE = {
    "jobs/corpus/openai/request_kind.py": "the tasks that answer the addresses of OpenAI",
    "jobs/submission/job_options.py": "what is done where nobody says it",
    "worker/cli/bench/providers.py": "what is done where nobody says it",
    "worker/model_tools/admission.py": "which options a model supports, its engine says",
    "worker/model_tools/route_admission.py": "the task that has routes",
}


def test_a_task_is_named_where_it_is_declared_and_where_it_is_computed() -> None:
    found = {
        file.relative_to(CHECKOUT).as_posix()
        for package in ("jobs", "worker")
        for file in (CHECKOUT / package).rglob("*.py")
        if NAMES.search(file.read_text(encoding="utf-8"))
    }

    assert {file for file in found if not file.startswith(ROOMS)} <= set(BESIDE)

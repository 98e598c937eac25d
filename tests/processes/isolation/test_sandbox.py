"""A real sandbox process, with the bundled model."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import ModelError, Stopped
from jobs.outcome import Translation
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.memory import learn
from jobs.store.queue.batches import Batch, PlannedDocument
from jobs.system.process import ProcessId
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.places import CHECKOUT
from worker.isolation import sandbox as sandbox_module
from worker.isolation.sandbox import Sandbox, SandboxDied
from worker.models.registry import find_model
from worker.providers.protocol import ProviderJob

BATCH: Batch = (PlannedDocument(0, "It will rain in Arden.", 10), PlannedDocument(1, "Snow in Kelso on Friday.", 10))


@pytest.fixture
def arguments(tmp_path: Path) -> WorkerArguments:
    settings = Settings(home=tmp_path, models_dir=tmp_path / "models", lanes=1)
    Database.open(settings.database_url).close()
    return WorkerArguments(settings)


@pytest.fixture
def job(tmp_path: Path) -> ProviderJob:
    revision = find_model("demo-en-zh", tmp_path / "models").revision()
    spec = JobSpec(task=Task.TRANSLATE, model="demo-en-zh", model_revision=revision, options=TranslateOptions())
    return ProviderJob(spec, spec.providers.choices[0])


@pytest.fixture
def sandbox(arguments: WorkerArguments, job: ProviderJob) -> Iterator[Sandbox]:
    sandbox = Sandbox(arguments, job, lambda: 20.0, lambda: False)
    yield sandbox
    sandbox.close()


def child_of(pid: int) -> int:
    """The pid of the sandbox; other tests may have left a resource tracker of multiprocessing as a further child."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    (child,) = [
        child
        for child in children
        if b"worker.isolation.sandbox_process" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return child


def test_a_sandbox_processes_several_batches_recalls_what_is_stored_and_ignores_sigterm(
    sandbox: Sandbox, arguments: WorkerArguments
) -> None:
    os.kill(child_of(os.getpid()), signal.SIGTERM)  # systemd sends it to every process of a service

    first, again = sandbox.process(BATCH), sandbox.process(BATCH[:1])
    with closing(Database.connect(arguments.settings.database_url)) as database, database.writing() as connection:
        learn(connection, first.learned)
    recalled = sandbox.process(BATCH)

    assert all(isinstance(outcome, Translation) for outcome in first.outcomes)
    assert again.outcomes == first.outcomes[:1]
    assert len(first.learned) == 2
    assert [outcome.num_reused for outcome in recalled.outcomes] == [1, 1]  # type: ignore[union-attr]
    assert recalled.learned == {}


def test_the_death_of_a_sandbox_is_reported_with_the_signal(sandbox: Sandbox) -> None:
    os.kill(child_of(os.getpid()), signal.SIGKILL)

    with pytest.raises(SandboxDied, match="SIGKILL") as death:
        sandbox.process(BATCH)
    assert death.value.code == "killed"


def test_a_sandbox_without_a_sign_of_life_is_killed(
    arguments: WorkerArguments, job: ProviderJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_module, "TRACEBACK_S", 0.2)  # a stopped process prints no traceback
    sandbox = Sandbox(arguments, job, lambda: 0.5, lambda: False)
    os.kill(child_of(os.getpid()), signal.SIGSTOP)

    with pytest.raises(SandboxDied, match=r"no sign.*0\.5 s") as death:
        sandbox.process(BATCH)
    sandbox.close()
    assert death.value.code == "hung"


def test_a_lane_that_is_asked_to_stop_does_not_wait_for_its_sandbox(
    arguments: WorkerArguments, job: ProviderJob
) -> None:
    stop = [False]
    sandbox = Sandbox(arguments, job, lambda: 60.0, lambda: stop[0])
    os.kill(child_of(os.getpid()), signal.SIGSTOP)
    stop[0] = True

    with pytest.raises(Stopped):
        sandbox.process(BATCH)
    sandbox.close()


def test_the_error_of_a_model_that_cannot_be_opened_is_raised_unchanged(
    arguments: WorkerArguments, job: ProviderJob
) -> None:
    other = replace(job, spec=replace(job.spec, model_revision="another"))

    with pytest.raises(ModelError, match="have changed"):
        Sandbox(arguments, other, lambda: 20.0, lambda: False)


HOLDER = """
import sys
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.spec import JobSpec
from worker.providers.protocol import ProviderJob
from jobs.store.queue.batches import PlannedDocument
from worker.isolation import sandbox as sandbox_module
from worker.isolation.sandbox import Sandbox

argument, options, revision = sys.argv[1:]
spec = JobSpec.restore(task="translate", model="demo-en-zh", model_revision=revision, options_json=options)
job = ProviderJob(spec, spec.providers.choices[0])
sandbox = Sandbox(WorkerArguments.from_argument(argument), job, lambda: 20.0, lambda: False)
print("ready", flush=True)
sandbox.process((PlannedDocument(0, "((hang))", 10),))
"""


def test_a_hanging_sandbox_ends_when_the_process_of_its_lane_ends_in_any_way(
    arguments: WorkerArguments, job: ProviderJob
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, arguments.argument(), job.spec.options_json(), job.spec.model_revision],
        cwd=CHECKOUT,
        env=arguments.environment() | {"PYTHONPATH": str(CHECKOUT / "tests" / "faults" / "poison")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    pid = child_of(holder.pid)
    started = float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    process = ProcessId(ProcessId.current().machine, pid, started)
    time.sleep(0.5)  # it is in its document now, and does not read its connection any more
    assert not process.is_dead()

    holder.kill()
    holder.communicate()

    deadline = time.monotonic() + 20
    while not process.is_dead():
        assert time.monotonic() < deadline
        time.sleep(0.05)

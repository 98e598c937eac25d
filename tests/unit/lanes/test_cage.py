"""The real sacrificial process, with the bundled model."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.dispatch.orders import Orders
from jobs.errors import ModelError, Stopped
from jobs.outcome import Translation
from jobs.process import ProcessId
from jobs.settings import Settings
from jobs.spec import JobSpec, Task, TranslateOptions
from jobs.store.batches import Batch, PlannedDocument
from jobs.store.database import Database
from worker.isolation.sandbox import Sandbox, SandboxDied
from worker.models.registry import find_model

ROOT = Path(__file__).parents[3]
BATCH: Batch = (PlannedDocument(0, "It will rain in Arden.", 10), PlannedDocument(1, "Snow in Kelso on Friday.", 10))


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    settings = Settings(home=tmp_path, models_dir=tmp_path / "models", lanes=1)
    Database.open(settings.database_url).close()
    return Orders(settings)


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    revision = find_model("demo-en-zh", tmp_path / "models").revision()
    return JobSpec(task=Task.TRANSLATE, model="demo-en-zh", model_revision=revision, options=TranslateOptions())


@pytest.fixture
def cage(orders: Orders, spec: JobSpec) -> Iterator[Sandbox]:
    cage = Sandbox(orders, spec, lambda: 20.0, lambda: False)
    yield cage
    cage.close()


def child_of(pid: int) -> int:
    """Of the cages; other tests may have left a process of Python's own behind, which tracks resources."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    (child,) = [
        child
        for child in children
        if b"worker.isolation.sandbox_process" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    return child


def test_it_translates_batch_after_batch_and_hears_no_request_to_stop(cage: Sandbox) -> None:
    os.kill(child_of(os.getpid()), signal.SIGTERM)  # as systemd does to every process of a service

    first, second = cage.translate(BATCH), cage.translate(BATCH[:1])

    assert all(isinstance(outcome, Translation) for outcome in first.outcomes)
    assert second.outcomes == first.outcomes[:1]
    assert len(first.learned) == 2


def test_its_death_is_told_with_the_signal(cage: Sandbox) -> None:
    os.kill(child_of(os.getpid()), signal.SIGKILL)

    with pytest.raises(SandboxDied, match="was killed by SIGKILL") as death:
        cage.translate(BATCH)
    assert death.value.code == "killed"


def test_silence_is_a_death(orders: Orders, spec: JobSpec) -> None:
    cage = Sandbox(orders, spec, lambda: 0.5, lambda: False)
    os.kill(child_of(os.getpid()), signal.SIGSTOP)

    with pytest.raises(SandboxDied, match=r"no sign of life for 0\.5 s") as death:
        cage.translate(BATCH)
    cage.close()
    assert death.value.code == "hung"


def test_a_lane_that_is_told_to_stop_does_not_wait_for_it(orders: Orders, spec: JobSpec) -> None:
    stop = [False]
    cage = Sandbox(orders, spec, lambda: 60.0, lambda: stop[0])
    os.kill(child_of(os.getpid()), signal.SIGSTOP)
    stop[0] = True

    with pytest.raises(Stopped):
        cage.translate(BATCH)
    cage.close()


def test_a_model_that_cannot_be_opened_is_told_as_it_is(orders: Orders, spec: JobSpec) -> None:
    other = JobSpec(task=Task.TRANSLATE, model=spec.model, model_revision="another", options=spec.options)

    with pytest.raises(ModelError, match="have changed"):
        Sandbox(orders, other, lambda: 20.0, lambda: False)


HOLDER = """
import sys
from jobs.dispatch.orders import Orders
from jobs.spec import JobSpec
from jobs.store.batches import PlannedDocument
from worker.isolation.sandbox import Sandbox

argument, options, revision = sys.argv[1:]
spec = JobSpec.restore(task="translate", model="demo-en-zh", model_revision=revision, options_json=options)
cage = Sandbox(Orders.from_argument(argument), spec, lambda: 20.0, lambda: False)
print("ready", flush=True)
cage.translate((PlannedDocument(0, "((hang))", 10),))
"""


def test_a_sacrifice_that_hangs_ends_with_its_lane_s_process_however_that_ends(orders: Orders, spec: JobSpec) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, orders.argument(), spec.options_json(), spec.model_revision],
        cwd=ROOT,
        env=orders.environment() | {"PYTHONPATH": str(ROOT / "tests" / "faults" / "poison")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    pid = child_of(holder.pid)
    started = float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    sacrifice = ProcessId(ProcessId.mine().machine, pid, started)
    time.sleep(1)  # it has its document in hand, and will never look at its connection again
    assert not sacrifice.is_dead()

    holder.kill()
    holder.communicate()

    deadline = time.monotonic() + 20
    while not sacrifice.is_dead():
        assert time.monotonic() < deadline
        time.sleep(0.05)

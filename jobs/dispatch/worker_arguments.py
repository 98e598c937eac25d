"""The settings that a parent passes to a worker process: one JSON argument, and secrets in the environment."""

import dataclasses
import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.queues import CPU
from jobs.settings import SECRET, Settings

# The exit code of a worker's processes, not of `kvjobs worker`: a person has asked it to drain, and it has; no other
# process follows.
EXIT_DRAINED = 75


@dataclass(frozen=True, slots=True)
class WorkerArguments:
    """The settings, and the options of `kvjobs worker` that are not settings."""

    settings: Settings
    drain: bool = False  # end when no work is left
    device: str = CPU  # cpu | cuda:N
    node: str | None = None  # the parent's name among the Celery workers
    first_job: int | None = None  # served before all others
    is_early: bool = False  # started before there is a job, whose number comes through its standard input
    replaces: int | None = None  # the id of this worker's last process; None: this is the first

    @property
    def has_run(self) -> bool:
        """Whether another process of this worker ran before, with the same database."""
        return self.replaces is not None

    def argument(self) -> str:
        """JSON without the settings that may contain a password: every user of a machine sees a process's arguments."""
        values: dict[str, Any] = {
            name: str(v) if isinstance(v, Path) else v for name, v in dataclasses.asdict(self.settings).items()
        }
        for name in SECRET:
            del values[name]
        names = ("drain", "device", "node", "first_job", "is_early", "replaces")
        return json.dumps({"settings": values, **{name: getattr(self, name) for name in names}})

    def environment(self) -> dict[str, str]:
        """The environment of this process, with the secrets."""
        return {**os.environ, **{_variable(name): getattr(self.settings, name) for name in SECRET}}

    @classmethod
    def from_argument(cls, argument: str) -> "WorkerArguments":
        """The arguments, from the text of `argument` and the environment that `environment` made."""
        arguments = json.loads(argument)
        values = arguments.pop("settings")
        paths = {name: Path(values[name]) for name in ("home", "models_dir")}
        secrets = {name: os.environ.get(_variable(name), "") for name in SECRET}
        return cls(Settings(**(values | paths | secrets)), **arguments)


def new_node() -> str:
    """A name for this process among the Celery workers."""
    return f"kvjobs-{os.getpid()}@{socket.gethostname()}"


def _variable(name: str) -> str:
    return f"KVJOBS_{name.upper()}"

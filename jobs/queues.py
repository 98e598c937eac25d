"""Queues: which jobs a worker processes; and priorities: which of them first.

A job's queue is `cpu` (for any worker) or `gpu` (for a worker with a GPU). A worker serves the queues of its device
unless others are set; `model:NAME` means the jobs of one model.
"""

from dataclasses import dataclass

from jobs.errors import SpecError, meant
from jobs.number_ranges import LARGEST, Whole

CPU, GPU = "cpu", "gpu"
MODEL = "model:"
PRIORITIES = {"low": -10, "normal": 0, "high": 10}
_PRIORITY_NUMBERS = Whole(-LARGEST, LARGEST)


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues that a worker serves: all jobs of the plain ones, and all jobs of the models."""

    plain: tuple[str, ...] = (CPU,)
    models: tuple[str, ...] = ()
    has_gpu: bool = False  # without one, jobs of the models are taken from the queue cpu only

    @classmethod
    def parse(cls, text: str, device: str = CPU) -> "Queues":
        """Parse `cpu,model:opus-mt-en-zh`; an empty text means the device's own queues. Raises SpecError."""
        names = [name for name in (part.strip() for part in text.split(",")) if name]
        if not names:
            return cls((CPU,)) if device == CPU else cls((CPU, GPU), has_gpu=True)
        for name in names:
            if name not in (CPU, GPU) and not (name.startswith(MODEL) and name != MODEL):
                near = meant(name, (CPU, GPU))
                raise SpecError(f"there is no queue {name!r}{near}; a worker serves cpu, gpu and model:NAME")
        if GPU in names and device == CPU:
            raise SpecError("a worker on the CPU cannot serve the queue gpu; give it a GPU with --device cuda:0")
        plain = tuple(sorted({name for name in names if not name.startswith(MODEL)}))
        models = tuple(sorted({name.removeprefix(MODEL) for name in names if name.startswith(MODEL)}))
        return cls(plain, models, has_gpu=device != CPU)

    def names(self) -> list[str]:
        """The names of the queues, as in settings and hints."""
        return [*self.plain, *(MODEL + model for model in self.models)]

    def __str__(self) -> str:
        return ",".join(self.names())


def check_queue(name: str) -> str:
    """Return the name if it is a queue that a job may have. Raises SpecError for any other."""
    if name not in (CPU, GPU):
        raise SpecError(
            f"there is no queue {name!r}{meant(name, (CPU, GPU))}; the queue of a job is cpu (any worker) or gpu "
            "(workers with a GPU)"
        )
    return name


def read_priority(value: int | str) -> int:
    """The priority that a number or one of the words low, normal and high means. Raises SpecError."""
    if value in PRIORITIES:
        return PRIORITIES[str(value)]
    try:
        return _PRIORITY_NUMBERS.parse(value) if isinstance(value, str) else _PRIORITY_NUMBERS.check(value)
    except SpecError as error:
        raise SpecError(f"{error}, nor is it low, normal or high{meant(str(value), PRIORITIES)}") from None

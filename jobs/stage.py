"""The stages of a chain of jobs: each processes what the stage before it made. Needs only the standard library.

Stage 1 reads the corpus, and is a job like any other. The documents of a later stage are those of stage 1, by position;
its text is the text of the corpus, or what an earlier stage made of it. A filter is a stage without a model: the
database keeps the documents that meet a condition.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from jobs.providers import ONNX_ALONE, ProviderOrder
from jobs.spec import JobSpec
from jobs.tasks import filter
from jobs.tasks.kinds import KINDS

FILTER = filter.FILTER.name  # the task of a filter, in the tables; `Task` has what a model does
NO_MODEL = "none"  # name and revision of a filter's model
CORPUS = 0  # of `reads`: the text of the corpus
MADE_TEXTS = {kind.main: kind.name for kind in KINDS.values() if kind.text}  # by the name of the field; who makes them
MAX_STAGES = 16


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """The specification of a filter, with what a `JobSpec` has besides for a row of `jobs`."""

    condition: str  # over the values of the stages before it and the fields of the corpus, as for `export --where`
    dotted: tuple[str, ...] = ()  # names in the condition that contain dots and are a single key of the corpus

    task = FILTER
    model = NO_MODEL
    model_revision = NO_MODEL
    providers: ProviderOrder = ONNX_ALONE

    def options_json(self) -> str:
        """The options as canonical JSON."""
        values = {"condition": self.condition, "dotted": self.dotted}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """sha256 of everything that decides whether a document is kept, besides the stages before."""
        return hashlib.sha256(f"{FILTER}\n{self.options_json()}".encode()).hexdigest()

    @classmethod
    def restore(cls, options_json: str) -> "FilterSpec":
        """The specification of a filter, from its row of `jobs`."""
        values = json.loads(options_json)
        return cls(values["condition"], tuple(values["dotted"]))


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage behind the first one."""

    spec: JobSpec | FilterSpec
    reads: int  # the number of the stage whose result is its text; CORPUS: the text of the corpus

    def identity(self) -> list[object]:
        """What decides the results of the stage, besides the stages before it; plain JSON."""
        return [self.spec.digest(), self.reads]


def newest_text(tasks: Sequence[str], field: str | None = None) -> int | None:
    """The stage that made a text last, among stages with these tasks; CORPUS where none made one. With `field`, the
    stage that made this one last (`text`: the corpus), or None where none did."""
    if field == "text":
        return CORPUS
    wanted = tuple(MADE_TEXTS.values()) if field is None else (MADE_TEXTS[field],)
    found = [number for number, task in enumerate(tasks, start=1) if task in wanted]
    return found[-1] if found else (CORPUS if field is None else None)

"""All tasks, their options, and the columns of `v_documents` that their results have together."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobs.errors import SpecError, meant
from jobs.tasks.filter import FILTER
from jobs.tasks.generate import GENERATE, GenerateOptions
from jobs.tasks.kind import VIEW_ORDER, Derived, Field, Kind, Type, Words
from jobs.tasks.option import Option
from jobs.tasks.rerank import RERANK, RerankOptions
from jobs.tasks.score import SCORE, ScoreOptions
from jobs.tasks.shared_options import SHARED_ORDER
from jobs.tasks.task import Task
from jobs.tasks.translate import TRANSLATE, TranslateOptions

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (TRANSLATE, SCORE, RERANK, GENERATE, FILTER)}

Options = TranslateOptions | ScoreOptions | RerankOptions | GenerateOptions
OPTIONS: Mapping[Task, type[Options]] = {
    Task(kind.name): kind.options_type for kind in KINDS.values() if kind.options_type is not None
}

OF_OUTCOMES: Mapping[type, Kind] = {kind.outcome: kind for kind in KINDS.values() if kind.outcome}


def read_options(task: Task, values: Mapping[str, Any]) -> Options:
    """The options of a task, checked, from plain values by name, as JSON has them. Those that are no part of the result
    (which fields a corpus is read from, which models a document goes through) are checked only.

    Raises SpecError for an option that the task does not have, and for a value that it cannot be.
    """
    own = KINDS[task].offered
    for name in values:
        if name not in own:
            raise SpecError(_not_of(task, name))
    read = {name: own[name].read(value) for name, value in values.items()}
    parts = {field.name for field in dataclasses.fields(OPTIONS[task])}
    return OPTIONS[task](**{name: value for name, value in read.items() if name in parts})


@functools.cache
def every_option() -> Mapping[str, Option]:
    """The options of all tasks by name, in the order of help. Where the tasks have several defaults, it is None."""
    found: dict[str, Option] = {}
    for kind in KINDS.values():
        for name, option in kind.offered.items():
            first = found.setdefault(name, replace(option, heading=option.heading or kind.name.title()))
            if first.default != option.default:
                found[name] = replace(first, default=None)
    return {name: found[name] for name in dict.fromkeys((*SHARED_ORDER, *found))}


def _not_of(task: Task, name: str) -> str:
    tasks = [f"--task {kind.name}" for kind in KINDS.values() if name in kind.offered]
    if not tasks:
        return f"there is no option {name!r}{meant(name, every_option())}"
    return f"{every_option()[name].flag} is for {' and '.join(tasks)}, and the task is {task}: leave it out"


def every_task(last: str, word: Callable[[Words], str]) -> str:
    """A word of all tasks of a model, for help: `translated, scored, reranked or continued`. `last`: what joins the
    last two."""
    *words, end = [word(KINDS[task].words) for task in Task]
    return f"{', '.join(words)} {last} {end}"


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of `v_documents` that comes from results. Fields of several tasks with the same name share a column."""

    name: str
    sources: tuple[tuple[Kind, Field | Derived], ...]

    @property
    def type(self) -> Type:
        _, first = self.sources[0]
        return first.type if isinstance(first, Field) else Type.FLOAT

    @property
    def is_condition(self) -> bool:
        """Whether a condition of `--where` may name the column."""
        return any(self.name in kind.conditions for kind, _ in self.sources)

    @property
    def meaning(self) -> str:
        """The tasks that have the column, and its meaning; once more for a task that gives it a meaning of its own."""
        said: list[tuple[list[str], str]] = []
        for kind, source in self.sources:
            task = f"{kind.name} {source.of}" if isinstance(source, Field) and source.of else kind.name
            own = source.view_meaning if isinstance(source, Field) else ""
            if said and not own:
                said[-1][0].append(task)
            else:
                said.append(([task], own or source.meaning))
        return "; ".join(f"{', '.join(tasks)}: {meaning}" for tasks, meaning in said)

    @property
    def unit(self) -> str | None:
        units = dict.fromkeys(source.unit for _, source in self.sources if source.unit)
        return " or ".join(units) or None


def _result_columns() -> Mapping[str, ResultColumn]:
    found: dict[str, list[tuple[Kind, Field | Derived]]] = {}
    for kind in KINDS.values():
        for field in kind.fields:
            if field.is_viewed:
                found.setdefault(field.view_name, []).append((kind, field))
        for derived in kind.derived:
            found.setdefault(derived.name, []).append((kind, derived))
    return {name: ResultColumn(name, tuple(found[name])) for name in sorted(found, key=VIEW_ORDER.index)}


RESULT_COLUMNS = _result_columns()  # by name, in the order of the view

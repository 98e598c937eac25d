"""The setting `providers`: which providers answer the jobs of each task, in which order.

One text, `onnx,openai` for all tasks, or `translate=onnx,openai:gpt-4o-mini; score=llamacpp`; in kvjobs.toml also a
table by task. A task that is not named has the order without a task, else onnx alone.
"""

import re
from collections.abc import Mapping
from typing import Any

from jobs.errors import SpecError
from jobs.providers import ONNX_ALONE, ProviderOrder
from jobs.tasks.task import Task

_OF_TASK = re.compile(r"\s*(?P<task>[^=:,;]*?)\s*=(?P<order>.*)", re.DOTALL)


def parse_orders(text: str) -> Mapping[Task, ProviderOrder]:
    """The order of each task. Raises SpecError for a text that is not as above."""
    orders: dict[Task | None, ProviderOrder] = {}  # None: of all tasks that are not named
    for part in filter(str.strip, text.split(";")):
        named = _OF_TASK.fullmatch(part)
        task = _task(named["task"]) if named else None
        if task in orders:
            raise SpecError(f"providers names {f'the task {task}' if task else 'an order for all tasks'} twice")
        orders[task] = ProviderOrder.parse(named["order"] if named else part)
    return {task: orders.get(task, orders.get(None, ONNX_ALONE)) for task in Task}


def read_orders(value: Any) -> str:
    """The text, of a table by task as TOML gives it too. Raises SpecError for anything else."""
    if isinstance(value, Mapping):
        for task, order in value.items():
            if not isinstance(order, str) or ";" in order:
                raise SpecError(f'providers.{task} is {order!r}; write names with commas between them: "onnx,openai"')
        value = "; ".join(f"{task}={order}" for task, order in value.items())
    if not isinstance(value, str):
        raise SpecError(f'providers is {value!r}; write names with commas between them: "onnx,openai"')
    parse_orders(value)
    return value


def _task(name: str) -> Task:
    try:
        return Task(name)
    except ValueError:
        raise SpecError(f"providers names the task {name!r}; the tasks are {', '.join(Task)}") from None

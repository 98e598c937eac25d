"""The setting `providers`, as one text and as a table by task."""

from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.provider_settings.task_orders import parse_orders, read_orders
from jobs.tasks.task import Task


def shown(text: str) -> dict[str, str]:
    return {task.value: str(order) for task, order in parse_orders(text).items()}


def test_one_order_is_that_of_every_task() -> None:
    assert shown("onnx,openai") == dict.fromkeys(Task, "onnx,openai")


def test_a_task_has_its_own_order_and_the_others_that_without_a_task() -> None:
    assert shown("openai:a=b,onnx; score = llamacpp ;") == {
        "translate": "openai:a=b,onnx",
        "score": "llamacpp",
        "rerank": "openai:a=b,onnx",
        "generate": "openai:a=b,onnx",
    }


def test_a_task_that_is_not_named_is_answered_by_onnx() -> None:
    assert shown("translate=ollama") == dict.fromkeys(Task, "onnx") | {"translate": "ollama"}
    assert shown("") == dict.fromkeys(Task, "onnx")


def test_a_table_says_the_same_as_its_text() -> None:
    text = read_orders({"translate": "onnx,openai:gpt-4o-mini", "score": "llamacpp,onnx"})

    assert text == "translate=onnx,openai:gpt-4o-mini; score=llamacpp,onnx"
    assert read_orders(text) == text


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("sing=onnx", "the task 'sing'; the tasks are translate, score, rerank, generate"),
        ("score=onnx; score=openai", "names the task score twice"),
        ("onnx; openai", "an order for all tasks twice"),
        ("score=", "no provider is named"),
        ("score=onnx,onnx", "named twice"),
        ("score=Open AI", "'Open AI' is not a provider"),
        (7, "providers is 7"),
        ({"score": ["onnx"]}, "providers.score is"),
        ({"score": "openai:m; translate=ollama"}, "providers.score is"),
        ({"sing": "onnx"}, "the task 'sing'"),
    ],
)
def test_anything_else_is_refused(value: Any, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        read_orders(value)

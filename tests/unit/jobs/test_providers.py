"""The order of a job's providers: written, read, part of the job's identity."""

from dataclasses import replace

import pytest

from jobs.errors import SpecError
from jobs.providers import ONNX_ALONE, Choice, ProviderOrder
from jobs.spec import JobSpec
from jobs.tasks.kinds import Options
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.rows import SPEC


def test_an_order_is_names_with_counterparts_behind_a_colon() -> None:
    order = ProviderOrder.parse(" onnx, openai:gpt-4o-mini,ollama:qwen2.5:0.5b ")

    assert order.choices == (Choice("onnx"), Choice("openai", "gpt-4o-mini"), Choice("ollama", "qwen2.5:0.5b"))
    assert str(order) == "onnx,openai:gpt-4o-mini,ollama:qwen2.5:0.5b"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no provider is named"),
        (" , ", "no provider is named"),
        ("onnx,onnx", "onnx is named twice"),
        ("openai:a,openai:b", "openai is named twice"),
        ("openai:", "names no model behind the colon"),
        ("../x", "is not a provider"),
        ("Onnx", "is not a provider"),
    ],
)
def test_an_order_that_cannot_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        ProviderOrder.parse(text)


def test_a_stored_order_is_read_back_and_none_is_onnx_alone() -> None:
    order = ProviderOrder(
        (Choice("ollama", skipped="it cannot score"), Choice("llamacpp", "m-q8", "0123"), Choice("onnx")), False
    )

    assert ProviderOrder.from_json(order.to_json()) == order
    assert ProviderOrder.from_json(None) == ONNX_ALONE
    assert [choice.name for choice in order.usable] == ["llamacpp", "onnx"]


def test_other_providers_are_another_job_and_the_sentence_of_a_skipped_one_is_not() -> None:
    def digest(*choices: Choice, fallback: bool = True) -> str:
        return replace(SPEC, providers=ProviderOrder(choices, fallback)).digest()

    onnx, openai = Choice("onnx"), Choice("openai")

    assert digest(onnx) == SPEC.digest()
    assert digest(onnx, fallback=False) == SPEC.digest(), "with one provider there is nothing to fall back to"
    assert len({digest(onnx), digest(onnx, openai), digest(openai, onnx), digest(onnx, Choice("openai", "m"))}) == 4
    assert digest(onnx, openai, fallback=False) != digest(onnx, openai)
    assert digest(onnx, Choice("openai", skipped="a")) == digest(onnx, Choice("openai", skipped="b"))


@pytest.mark.parametrize(
    ("task", "options", "digest"),
    [
        (Task.SCORE, ScoreOptions(), "d2ae5a8800031cad19e9bc9559aa9e7944f3b0dd6867a55f76ad646079b82e8d"),
        (Task.TRANSLATE, TranslateOptions(), "72bb509d446e6db56bba89ec5d2cc373117971fdd8e135361b80627535061771"),
        (
            Task.RERANK,
            RerankOptions(method=Method.QUERY_LIKELIHOOD),
            "da46d79dfc00ed8fda246482eca5717c0dc4d455a838017c0757267201d28034",
        ),
    ],
)
def test_a_job_of_onnx_alone_keeps_its_digest(task: Task, options: Options, digest: str) -> None:
    """Computed by the version before providers: the same corpus is the same job again after an upgrade."""
    assert JobSpec(task=task, model="m", model_revision="r", options=options).digest() == digest

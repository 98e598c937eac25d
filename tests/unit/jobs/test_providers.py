"""The order of a job's providers: written, read, part of the job's identity."""

from dataclasses import replace

import pytest

from jobs.errors import SpecError
from jobs.providers import ONNX_ALONE, Choice, ProviderOrder
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

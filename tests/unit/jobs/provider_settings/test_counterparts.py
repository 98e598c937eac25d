"""The setting `counterparts`, as JSON and as a table."""

from typing import Any

import pytest

from jobs.errors import SpecError
from jobs.provider_settings.counterparts import parse_counterparts, read_counterparts

NAMES = {"demo-lm": {"openai": "demo-lm-f32", "llamacpp": "größer"}}


def test_a_table_says_the_same_as_its_text() -> None:
    text = read_counterparts(NAMES)

    assert text == '{"demo-lm": {"openai": "demo-lm-f32", "llamacpp": "größer"}}'
    assert (read_counterparts(text), parse_counterparts(text)) == (text, NAMES)


def test_nothing_names_no_counterpart() -> None:
    assert (read_counterparts({}), read_counterparts(" "), parse_counterparts("")) == ("", "", {})


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([1], "is not a table of models"),
        ({"m": "openai"}, "of 'm' is not a table of providers"),
        ({"m": {"openai": ""}}, "the name at 'openai' is ''"),
        ({"m": {"openai": 4}}, "the name at 'openai' is 4"),
        ({"m": {"onnx": "n"}}, "names onnx, which runs the model itself"),
        ({"m": {"Open AI": "n"}}, "'Open AI' is not a provider"),
    ],
)
def test_anything_else_is_refused(value: Any, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        read_counterparts(value)

"""Exported graphs give the tokens and scores of transformers 4.57 (tests/golden/make_golden.py)."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.repetition import cover
from tests.tiny_models import assert_golden

FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_gives_the_ids_of_transformers(open_tiny: Callable[..., Any], family: str) -> None:
    tiny = open_tiny(family, "merged")
    cache = tiny.model.graphs.new_cache()  # shared: what an earlier search left in it must not matter
    assert len(tiny.cases) >= 25
    # Each setting with a tied head and with a separate one.
    for case in tiny.cases[FAMILIES.index(family) % 2 :: 2]:
        assert_golden(tiny.run(tiny.rules(**case.settings), cache=cache), case)


@pytest.mark.parametrize(
    ("use", "family"),
    cover(
        [
            ("merged", "off"),
            ("merged", "hybrid:3"),
            ("two", "on"),
            ("two", "off"),
            ("two", "hybrid:3"),
            ("none", "auto"),
        ],
        FAMILIES,
    ),
)
def test_every_layout_and_cache_policy_gives_the_ids_of_transformers(
    open_tiny: Callable[..., Any], use: tuple[str, str], family: str
) -> None:
    layout, policy = use
    tiny = open_tiny(family, layout)
    for name in ("greedy", "beam 4"):
        case = tiny.case(name)
        assert_golden(tiny.run(tiny.rules(**case.settings), policy=policy), case)


def test_a_graph_exported_without_a_past_gives_the_ids_of_transformers(
    open_tiny: Callable[..., Any],
) -> None:
    tiny = open_tiny("tiny-swish-tied", "never")
    for name in ("greedy", "beam 4"):
        case = tiny.case(name)
        assert_golden(tiny.run(tiny.rules(**case.settings)), case)

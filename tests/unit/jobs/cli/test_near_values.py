"""A value that is nearly one of a list gets that one in the answer, as a command does: by every option with a list."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from jobs.cli.choice import SuggestingChoice
from jobs.corpus.corpus import Corpus
from jobs.corpus.corpus_format import separator_of
from jobs.corpus.encodings import encoding_named
from jobs.errors import KvjobsError, meant, nearest
from jobs.queues import Queues, check_queue, read_priority
from jobs.retrieval.metrics import by_query
from jobs.tasks.shared_options import CachePolicy
from tests.unit.jobs.cli.test_number_options import PARAMETERS
from worker.models.registry import find_model
from worker.providers.registry import provider_class


def test_every_option_with_a_list_of_values_suggests_one() -> None:
    lists = {name: one for name, one in PARAMETERS.items() if isinstance(one.type, click.Choice)}
    assert len(lists) > 10

    assert [name for name, one in lists.items() if not isinstance(one.type, SuggestingChoice)] == []
    for one in lists.values():
        longest = max((str(getattr(value, "value", value)) for value in one.type.choices), key=len)
        with pytest.raises(click.BadParameter, match=f"mean {longest}"):
            one.type.convert(longest[1] + longest[0] + longest[2:], one, None)


@pytest.mark.parametrize(
    ("read", "written", "near"),
    [
        (lambda value: Corpus(path=__file__, format=value), "josnl", "jsonl"),
        (separator_of, "tba", "tab"),
        (encoding_named, "shft-jis", "shift_jis"),
        (check_queue, "gpuu", "gpu"),
        (Queues.parse, "cpuu", "cpu"),
        (provider_class, "opeani", "openai"),
        (CachePolicy.parse, "atuo", "auto"),
        (lambda value: find_model(value, Path("none"), ("auto",)), "atuo", "auto"),
        (lambda value: find_model(value, Path("none")), "demo-lmm", "demo-lm"),
        (lambda value: by_query({}, {}, [value]), "nDGC@10", "nDCG"),
        (read_priority, "hgih", "high"),
    ],
)
def test_a_value_that_is_read_in_another_way_does_too(read: Callable[[str], Any], written: str, near: str) -> None:
    with pytest.raises((KvjobsError, click.BadParameter)) as refused:
        read(written)

    assert f"mean {near}?" in getattr(refused.value, "message", str(refused.value))


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert meant("xlsx", ("jsonl", "txt")) == ""
    assert nearest("JSONL", ("jsonl", "txt")) == "jsonl"
    assert nearest("error_message", ("error_code", "error")) == "error"  # as the column was called

"""The declarations of the tasks fit together."""

import re

import pytest

from jobs.store.schema.tables import JobCounts
from jobs.tasks.kind import VIEW_ORDER, Kind
from jobs.tasks.kinds import KINDS, RESULT_COLUMNS
from jobs.tasks.task import Task
from tests.places import CHECKOUT
from worker.models.model_kind import ModelKind
from worker.models.registry import BUNDLED


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_what_a_task_says_of_its_fields_is_about_fields_that_it_has(kind: Kind) -> None:
    of_mean = (kind.mean.total, kind.mean.count) if kind.mean else ()
    of_derived = (name for derived in kind.derived for name in (derived.total, derived.count))
    used = {*of_mean, *of_derived, kind.length, kind.text} - {None}

    assert used <= {field.name for field in kind.fields}
    assert {field.counter for field in kind.fields if field.counter} <= {*JobCounts.__table__.c.keys()}


@pytest.mark.parametrize("kind", [KINDS[task] for task in Task], ids=lambda kind: kind.name)
def test_a_task_of_models_says_which_do_it_and_how_their_answers_differ(kind: Kind) -> None:
    assert kind.default_model in BUNDLED
    assert {*kind.models} <= {*ModelKind}
    assert kind.difference


def test_a_stage_of_a_chain_has_texts() -> None:
    assert [kind.name for kind in KINDS.values() if kind.can_follow] == ["translate", "score", "generate"]


def test_columns_of_two_tasks_under_one_name_have_one_type() -> None:
    shared = [column for column in RESULT_COLUMNS.values() if len(column.sources) > 1]

    assert {column.name for column in shared} == {
        *("log_prob", "num_reused", "num_source_tokens", "num_tokens", "num_shared")
    }
    for column in shared:
        assert {field.type for _, field in column.sources} == {column.type}  # type: ignore[union-attr]  # fields


def test_the_view_has_each_column_once() -> None:
    assert len(set(VIEW_ORDER)) == len(VIEW_ORDER)


# Fields that code outside `jobs/tasks` names: words with other meanings, sums of the memories and of totals, and what a
# page draws in a way of its own.
NAMED_ELSEWHERE = {
    *("text", "candidates", "finish", "segments", "via", "alternatives", "num_segments", "alignments"),
    *("log_prob", "nll_sum", "num_tokens", "num_words", "num_bytes", "num_source_tokens", "num_target_tokens"),
    *("token_scores", "via_segments", "num_candidates", "num_shared"),
}


def test_a_field_of_a_result_is_named_where_it_is_declared_and_nowhere_else() -> None:
    folder, outcomes = CHECKOUT / "jobs", CHECKOUT / "jobs" / "outcome.py"
    declared = {field.name for kind in KINDS.values() for field in kind.fields}
    found: set[str] = set()
    for path in (*folder.rglob("*.py"), *folder.rglob("*.html"), *folder.rglob("*.toml")):
        if path != outcomes and path.parent != folder / "tasks":
            found |= declared & set(re.findall(r"\w+", path.read_text(encoding="utf-8")))

    assert found == NAMED_ELSEWHERE

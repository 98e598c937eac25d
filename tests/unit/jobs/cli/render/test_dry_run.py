"""The wording of messages that were once misleading."""

import importlib.metadata

import pytest

from jobs.cli.render.dry_run import describe
from jobs.documents import Reject, Rejected
from jobs.submission.dry_run import DryRun, SegmentCounts
from jobs.system.process import how_it_ended
from jobs.system.requirements import install_command
from tests.rows import SPEC


def test_a_process_that_was_ended_by_a_signal_is_reported_as_killed() -> None:
    assert [how_it_ended(code) for code in (1, -9, -63)] == [
        "exited with code 1",
        "was killed by SIGKILL (signal 9)",
        "was killed by signal 63",
    ]


def test_a_missing_package_is_to_be_installed_by_its_own_name_and_not_as_an_extra_of_kvjobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = ["psycopg[binary]>=3.2; extra == 'postgres'", "ir-measures>=0.4.3; extra == 'metrics'", "click>=8.2"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: wanted)

    assert [install_command(name) for name in ("psycopg", "ir_measures", "click", "kombu")] == [
        "pip install 'psycopg[binary]>=3.2'",
        "pip install 'ir-measures>=0.4.3'",
        "pip install 'click>=8.2'",
        "pip install kombu",
    ]


def test_one_rejected_line_is_counted_in_the_singular() -> None:
    dry_run = DryRun(
        counts=SegmentCounts(2, 2, 0, 0, 0, 0, 0, ()),
        num_documents=2,
        estimated_tokens=0,
        num_rejected=1,
        rejected=(Rejected(1, None, False, 2, Reject.BAD_JSON, "line 2 is not JSON"),),
        num_shards=1,
        num_without_id=0,
    )

    assert next(describe(dry_run, SPEC, (), None)) == "documents   2, and 1 rejected line"

"""The timeline of lanes counts the time that no batch covers."""

from datetime import timedelta

import pytest

from jobs.store.report.timings.recent_batches import BatchSummary
from jobs.web.job_page.lanes import timeline
from tests.unit.jobs.web.job_page.batches import batch
from tests.unit.jobs.web.sentences import missing


def test_gaps_between_batches_are_idle_time() -> None:
    found = timeline([batch(0, 4), batch(6, 4), batch(0, 10, lane=1)], is_whole_job=True)

    assert missing(found.sentence, "2 lanes", "10.0 %", "all 3 batches", "2.0 s (box, worker 1, lane 0)") == []
    first, second = found.lanes
    assert [(block.start, block.length) for block in first.blocks] == [
        (0.0, 0.4),
        (pytest.approx(0.6), pytest.approx(0.4)),
    ]
    assert (first.busy_share, first.longest_gap_s, second.busy_share) == (pytest.approx(0.8), 2.0, 1.0)


def test_a_lane_that_stops_early_is_idle_until_the_end() -> None:
    found = timeline([batch(0, 5), batch(0, 10, lane=1)], is_whole_job=True)

    assert found.lanes[0].longest_gap_s == 5.0


def test_requests_side_by_side_do_not_begin_before_the_job() -> None:
    """Their seconds are summed: a batch of 10 s of requests may have taken 4."""
    requests = batch(0, 10)
    began_at = requests.started_at + timedelta(seconds=6)

    found = timeline([requests], is_whole_job=True, began_at=began_at)

    (lane,) = found.lanes
    assert (found.start, lane.busy_s, lane.busy_share) == (began_at, 4.0, 1.0)
    assert [(block.start, block.length) for block in lane.blocks] == [(0.0, 1.0)]


def test_batches_side_by_side_are_one_block_and_a_moment_is_counted_once() -> None:
    """Sums of durations and the clock of the database differ a little, so intervals of a lane may overlap."""
    found = timeline([batch(0, 5.0), batch(4.9, 5.1, failed=2)], is_whole_job=True)

    (lane,) = found.lanes
    (block,) = lane.blocks
    assert (block.batches, block.documents, block.failed) == (2, 20, 2)
    assert lane.busy_s == pytest.approx(10.0)
    assert (lane.busy_share, lane.longest_gap_s) == (1.0, 0.0)
    assert missing(found.sentence, "1 lane ", " 0.0 %", "10.0 s", "all 2 batches") == []
    assert "gap" not in found.sentence


def test_of_a_long_job_the_sentence_names_the_window() -> None:
    batches = [batch(0, 5), batch(5, 5)]

    assert "newest 2 batches" in timeline(batches, is_whole_job=False).sentence
    assert "newest" not in timeline(batches, is_whole_job=True).sentence


def test_many_batches_make_no_more_blocks_than_can_be_seen() -> None:
    found = timeline([batch(second * 0.01, 0.009) for second in range(5000)], is_whole_job=False)

    assert len(found.lanes[0].blocks) <= 1200


@pytest.mark.parametrize("batches", [[], [batch(0, 0.0)]])
def test_without_durations_there_is_no_lane(batches: list[BatchSummary]) -> None:
    found = timeline(batches, is_whole_job=True)

    assert (found.lanes, found.start, found.stop) == ((), None, None)
    assert found.sentence

"""Which lane did what when, over the newest batches: what is not covered by a batch was idle, or other jobs' time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.store.report.timings.recent_batches import BatchSummary
from jobs.text.formatting import counted, duration, percent

RESOLUTION = 1200  # parts of the window that can be told apart; batches with a shorter gap between them are one block


@dataclass(frozen=True, slots=True)
class Block:
    """Batches without a visible gap between them; `start` and `length` are shares of the window."""

    start: float
    length: float
    batches: int
    documents: int
    failed: int
    busy_s: float
    began_at: datetime


@dataclass(frozen=True, slots=True)
class Lane:
    """What a lane did in the window of time, as blocks."""

    name: str
    worker_id: int
    blocks: tuple[Block, ...]
    batches: int
    documents: int
    failed: int
    busy_s: float
    busy_share: float  # of the window
    longest_gap_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """All lanes over the same window."""

    sentence: str
    start: datetime | None
    stop: datetime | None
    lanes: tuple[Lane, ...]


def timeline(batches: Sequence[BatchSummary], *, is_whole_job: bool, began_at: datetime | None = None) -> Timeline:
    """The lanes of these batches. `is_whole_job`: there are no older batches. `began_at`: of the job; requests to a
    server run side by side, so the seconds of a batch may reach further back."""
    timed = [batch for batch in batches if batch.busy_s > 0]
    if not timed:
        return Timeline("No batch with durations was recorded.", None, None, ())
    start, stop = min(batch.started_at for batch in timed), max(batch.ended_at for batch in timed)
    start = min(max(start, began_at or start), stop)
    by_lane: dict[tuple[int, int], list[BatchSummary]] = {}
    for batch in timed:
        by_lane.setdefault((batch.worker_id, batch.lane), []).append(batch)
    lanes = tuple(_lane(some, start, stop) for _, some in sorted(by_lane.items()))
    return Timeline(_sentence(lanes, len(timed), start, stop, is_whole_job), start, stop, lanes)


def _lane(batches: list[BatchSummary], start: datetime, stop: datetime) -> Lane:
    """One lane. Its batches are recorded one after the other, so their intervals can overlap only by the time that
    clocks and sums of durations are off; a moment is counted once."""
    window = (stop - start).total_seconds() or 1e-6
    intervals = sorted(
        (
            (max(0.0, (batch.started_at - start).total_seconds()), (batch.ended_at - start).total_seconds(), batch)
            for batch in batches
        ),
        key=lambda interval: interval[:2],
    )
    blocks: list[Block] = []
    busy, reached, longest = 0.0, 0.0, 0.0
    for begins, ends, batch in intervals:
        gap = max(0.0, begins - reached)
        longest = max(longest, gap)
        own = max(0.0, ends - max(begins, reached))
        busy += own
        is_new = not blocks or gap > window / RESOLUTION
        block = Block(begins / window, 0.0, 0, 0, 0, 0.0, batch.started_at) if is_new else blocks.pop()
        blocks.append(
            Block(
                start=block.start,
                length=max(block.length, ends / window - block.start),
                batches=block.batches + 1,
                documents=block.documents + batch.documents,
                failed=block.failed + batch.failed,
                busy_s=block.busy_s + own,
                began_at=block.began_at,
            )
        )
        reached = max(reached, ends)
    return Lane(
        name=batches[0].lane_name,
        worker_id=batches[0].worker_id,
        blocks=tuple(blocks),
        batches=len(batches),
        documents=sum(batch.documents for batch in batches),
        failed=sum(batch.failed for batch in batches),
        busy_s=busy,
        busy_share=min(1.0, busy / window),
        longest_gap_s=max(longest, window - reached),
    )


def _sentence(lanes: Sequence[Lane], number: int, start: datetime, stop: datetime, is_whole_job: bool) -> str:
    idle = round(1 - sum(lane.busy_share for lane in lanes) / len(lanes), 6)
    window = duration((stop - start).total_seconds())
    batches = "1 batch" if number == 1 else f"{number:,} batches"
    of_what = f"all {batches} of the job" if is_whole_job else f"the newest {batches}"
    verb = "was" if len(lanes) == 1 else "were"
    worst = max(lanes, key=lambda lane: lane.longest_gap_s)
    gap = f" The longest gap is {duration(worst.longest_gap_s)} ({worst.name})." if worst.longest_gap_s >= 0.05 else ""
    return (
        f"{counted(len(lanes), 'lane')} {verb} idle, or busy with other jobs, {percent(idle)} of the window "
        f"({window}, {of_what}).{gap}"
    )

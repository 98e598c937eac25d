"""Length against latency."""

import pytest

from jobs.web.job_page.latency import latency_chart
from tests.unit.jobs.web.job_page.batches import batch
from tests.unit.jobs.web.sentences import missing


def sized(tokens: int, ms: float) -> object:
    """A batch of 10 documents of so many tokens and milliseconds each."""
    return batch(0, ms / 100, source_tokens=10 * tokens, target_tokens=0)


@pytest.mark.parametrize(
    ("long_ms", "growth"),
    [(10.0, "less than in proportion"), (20.0, "grows in proportion"), (50.0, "more than in proportion")],
)
def test_the_sentence_compares_short_documents_with_long_ones(long_ms: float, growth: str) -> None:
    batches = [sized(100, 10.0), sized(200, long_ms), sized(100, 10.0), sized(200, long_ms)]

    sentence = latency_chart(batches).sentence  # type: ignore[arg-type]
    assert (
        missing(sentence, "4 batches", "100 tokens", "10.0 ms", "200 tokens", f"{long_ms:.1f} ms", f" {growth} ") == []
    )


def test_each_batch_is_a_point() -> None:
    chart = latency_chart([sized(200, 20.0), sized(100, 10.0)])  # type: ignore[list-item]

    assert (list(chart.x), list(chart.series[0].values)) == ([100.0, 200.0], [10.0, 20.0])
    assert missing(chart.sentence, "15.0 ms", "2 batches", "too few") == []


def test_of_many_batches_the_newest_are_points() -> None:
    chart = latency_chart([sized(100, 10.0)] * 300 + [sized(200, 10.0)] * 300)  # type: ignore[list-item]

    assert set(chart.x) == {200.0}
    assert missing(chart.sentence, "newest 300 batches") == []


def test_batches_without_a_duration_or_a_result_are_no_points() -> None:
    chart = latency_chart([batch(0, 0.0), batch(0, 1.0, documents=0, failed=3)])

    assert (chart.is_empty, bool(chart.sentence)) == (True, True)

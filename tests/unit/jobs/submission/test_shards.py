"""Where a corpus is cut into shards: by tokens, and always at the same documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.documents import Document, Record, Reject, Rejected
from jobs.store.ingest.lifecycle import IngestBatch
from jobs.submission import shards
from jobs.submission.shards import cut_batches


def document(position: int, tokens: int, fields: str | None = None) -> Document:
    return Document(position, str(position), True, position + 1, "x" * tokens * 4, fields, tokens)


def rejected(position: int) -> Rejected:
    return Rejected(position, None, False, position + 1, Reject.BAD_JSON, "bad")


def ranges(batches: list[IngestBatch]) -> list[list[tuple[int, int]]]:
    return [[(shard[0].position, shard[-1].position + 1) for shard in batch.shards] for batch in batches]


def test_a_shard_is_filled_up_to_its_limit_of_tokens() -> None:
    records = [document(position, 4_000) for position in range(10)]

    assert ranges(list(cut_batches(records))) == [[(0, 4), (4, 8), (8, 10)]]


def test_a_giant_document_has_a_shard_of_its_own() -> None:
    records = [document(0, 10), document(1, 200_000), document(2, 10), document(3, 16_000), document(4, 16_000)]

    assert ranges(list(cut_batches(records))) == [[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]]


def test_a_shard_has_at_most_a_thousand_documents_rejected_ones_included() -> None:
    records = [rejected(position) if position % 2 else document(position, 1) for position in range(2500)]

    assert ranges(list(cut_batches(records))) == [[(0, 1000), (1000, 2000), (2000, 2500)]]


def test_large_other_fields_cut_a_shard_before_it_fills_the_memory() -> None:
    records = [document(position, 1, "x" * (1 << 20)) for position in range(40)]

    batches = list(cut_batches(records))

    assert max(stop - start for batch in ranges(batches) for start, stop in batch) == 3
    assert max(batch.stop - batch.start for batch in batches) <= 18


def test_a_batch_ends_with_a_shard_at_twenty_thousand_documents() -> None:
    records = (document(position, 1) for position in range(45_000))

    assert [(batch.start, batch.stop) for batch in cut_batches(records)] == [
        (0, 20_000),
        (20_000, 40_000),
        (40_000, 45_000),
    ]


@given(sizes=st.lists(st.integers(0, 30), max_size=60), data=st.data())
def test_resuming_at_any_batch_gives_the_same_cuts(sizes: list[int], data: st.DataObject) -> None:
    records: list[Record] = [document(p, size) if size else rejected(p) for p, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SHARD_TOKENS": 40, "SHARD_DOCUMENTS": 5, "BATCH_DOCUMENTS": 8}.items():
            patch.setattr(shards, name, value)
        whole = list(cut_batches(records))
        assert [record for batch in whole for shard in batch.shards for record in shard] == records
        offset = data.draw(st.sampled_from([0, *(batch.stop for batch in whole)]))

        rest = list(cut_batches(records[offset:]))

    assert ranges(rest) == [ranges([batch])[0] for batch in whole if batch.start >= offset]


def test_a_shard_of_one_route_ends_with_it_and_one_of_several_does_not() -> None:
    def routed(position: int, route: str) -> Document:
        return document(position, 1_000)._replace(route=route)

    by_language = [routed(position, "fr" if position < 6 else "es") for position in range(12)]
    every_other = [routed(position, ("fr", "es")[position % 2]) for position in range(20)]
    a_few = [routed(position, "fr" if position < 3 else "es") for position in range(12)]

    assert ranges(list(cut_batches(by_language))) == [[(0, 6), (6, 12)]]
    assert ranges(list(cut_batches(every_other))) == [[(0, 16), (16, 20)]]
    assert ranges(list(cut_batches(a_few))) == [[(0, 12)]], "less than a quarter of a shard"

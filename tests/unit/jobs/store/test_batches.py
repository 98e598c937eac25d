from hypothesis import given
from hypothesis import strategies as st

from jobs.store.batches import MAX_DOCUMENTS, MAX_TOKENS, PlannedDocument, plan_batches

SIZES = st.lists(st.integers(1, 2 * MAX_TOKENS) | st.integers(1, 20), max_size=600)


def planned(sizes: list[int], ended: set[int] = frozenset()) -> list[PlannedDocument]:  # type: ignore[assignment]
    return [PlannedDocument(i, "", size, ended=i in ended) for i, size in enumerate(sizes)]


@given(SIZES)
def test_every_document_is_in_exactly_one_batch_and_in_order(sizes: list[int]) -> None:
    batches = plan_batches(planned(sizes))

    assert [d.position for batch in batches for d in batch] == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) <= MAX_DOCUMENTS
        assert len(batch) == 1 or sum(d.estimated_tokens for d in batch) <= MAX_TOKENS


@given(SIZES, st.data())
def test_documents_that_are_done_do_not_move_the_borders_of_batches(sizes: list[int], data: st.DataObject) -> None:
    ended = data.draw(st.sets(st.sampled_from(range(len(sizes)))) if sizes else st.just(set()))

    whole = plan_batches(planned(sizes))
    rest = plan_batches(planned(sizes, ended))

    left = [[d.position for d in batch if d.position not in ended] for batch in whole]
    assert [[d.position for d in batch] for batch in rest] == [batch for batch in left if batch]

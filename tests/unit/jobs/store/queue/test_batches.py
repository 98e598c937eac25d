from hypothesis import given
from hypothesis import strategies as st

from jobs.store.queue.batches import MAX_DOCUMENTS, MAX_TOKENS, PlannedDocument, joined, plan_batches

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


@given(st.lists(st.tuples(st.integers(1, MAX_TOKENS), st.sampled_from("abc")), max_size=60), st.data())
def test_a_batch_has_one_route_and_each_route_is_cut_as_if_it_were_alone(
    documents: list[tuple[int, str]], data: st.DataObject
) -> None:
    ended = data.draw(st.sets(st.sampled_from(range(len(documents)))) if documents else st.just(set()))
    shard = [PlannedDocument(i, "", size, i in ended, route) for i, (size, route) in enumerate(documents)]

    batches = plan_batches(shard)

    order = list(dict.fromkeys(route for _, route in documents))
    alone = [batch for one in order for batch in plan_batches([d for d in shard if d.route == one])]
    assert list(batches) == alone


@given(st.lists(st.tuples(st.integers(1, 2 * MAX_TOKENS), st.sampled_from("ab")), max_size=60), st.integers(1, 4))
def test_joined_batches_keep_order_route_and_the_larger_limit(documents: list[tuple[int, str]], times: int) -> None:
    batches = plan_batches([PlannedDocument(i, "", size, False, route) for i, (size, route) in enumerate(documents)])

    found = joined(batches, times)

    assert [d for batch in found for d in batch] == [d for batch in batches for d in batch]
    for batch in found:
        assert len({d.route for d in batch}) == 1
        assert batch in batches or sum(d.estimated_tokens for d in batch) <= times * MAX_TOKENS
    assert times > 1 or found == batches


def test_the_documents_of_a_batch_have_equal_options_and_may_have_other_lengths() -> None:
    own = [None, '{"max_chars":5}', None, '{"markup":"md"}', '{"max_chars":7}']
    batches = plan_batches([PlannedDocument(i, "", 1, own_options=own) for i, own in enumerate(own)])

    assert [[document.position for document in batch] for batch in batches] == [[0, 2], [1, 4], [3]]
    assert joined(batches, 4) == batches

"""What a corpus would be to a model that scores it."""

from hypothesis import given
from hypothesis import strategies as st

from worker.text.length_preview import LengthBucket, LengthPreview, Measured, preview_lengths

LENGTHS = st.lists(st.lists(st.integers(0, 5000), max_size=5), max_size=20)


def measured(*lengths: int) -> list[Measured]:
    return [Measured(length, length) for length in lengths]


def test_documents_sequences_and_tokens_are_counted():
    found = preview_lengths([measured(3), measured(0), measured(9, 1), measured()], max_tokens=8)

    assert found == LengthPreview(
        num_documents=4,
        num_sequences=4,
        num_empty=2,
        num_long=1,
        num_tokens=13,
        longest=9,
        histogram=(LengthBucket(1, 2), LengthBucket(4, 1), LengthBucket(16, 1)),
    )


def test_a_pair_is_long_where_one_half_is():
    assert preview_lengths([[Measured(12, 7)], [Measured(9, 8)]], max_tokens=7).num_long == 1


@given(LENGTHS)
def test_every_sequence_is_in_the_bucket_of_its_length(lengths):
    found = preview_lengths([measured(*some) for some in lengths], max_tokens=100)
    flat = [length for some in lengths for length in some]

    assert found.num_sequences == len(flat) == sum(bucket.num_sequences for bucket in found.histogram)
    assert found.num_tokens == sum(flat)
    assert found.num_long == sum(length > 100 for length in flat)
    for bucket in found.histogram:
        low = bucket.max_tokens // 2 if bucket.max_tokens > 1 else -1
        assert bucket.num_sequences == sum(low < length <= bucket.max_tokens for length in flat)

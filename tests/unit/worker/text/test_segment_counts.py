"""The figures of a dry run."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from jobs.submission.dry_run import LengthBucket, SegmentCounts
from worker.text.segment_counts import count_segments


class OneIdAWord:
    """A tokenizer: the label where there is one, an id for each word, the end."""

    def encode(self, text: str, language: str | None) -> list[int]:
        return [*([7] if language else []), *range(len(text.split())), 0]


def look(*texts: str, target_language: str | None = None, max_tokens: int = 512) -> SegmentCounts:
    return count_segments(
        texts, OneIdAWord(), source_language="en", target_language=target_language, max_tokens=max_tokens
    )


def test_sentences_and_what_passes_through_are_counted_apart():
    seen = look("It rains. It snows.\n---\n42", "", "- 7 -")

    assert (seen.num_documents, seen.num_empty) == (3, 2)
    assert (seen.num_segments, seen.num_passed_through) == (2, 3)


def test_tokens_are_what_the_model_is_fed():
    assert look("It rains.").num_tokens == 3
    assert look("It rains.", target_language="fra").num_tokens == 4


def test_a_bucket_holds_lengths_up_to_a_power_of_two():
    lengths = [2, 3, 4, 5, 8, 9]  # the end included

    seen = look(*[" ".join(["rain"] * (length - 1)) for length in lengths])

    assert seen.histogram == (LengthBucket(2, 1), LengthBucket(4, 2), LengthBucket(8, 2), LengthBucket(16, 1))
    assert seen.longest == 9


def test_a_segment_beyond_the_positions_is_counted_as_split():
    assert look("a b c", "a b c d", max_tokens=4).num_split == 1


def test_no_text_at_all_is_all_zeros():
    assert look() == SegmentCounts(0, 0, 0, 0, 0, 0, 0, ())


def test_texts_are_taken_one_at_a_time():
    alive = []

    class Text(str):
        def __del__(self) -> None:
            alive.remove(id(self))

    def corpus() -> Iterator[str]:
        for i in range(100):
            text = Text(f"Rain {i}.")
            alive.append(id(text))
            assert len(alive) <= 2
            yield text

    seen = count_segments(corpus(), OneIdAWord(), source_language="en", target_language=None, max_tokens=9)

    assert seen.num_documents == 100


@given(st.lists(st.text("ab. \n1")))
def test_the_histogram_adds_up(texts):
    seen = look(*texts, max_tokens=4)

    assert sum(bucket.num_sequences for bucket in seen.histogram) == seen.num_segments
    assert sum(bucket.num_sequences for bucket in seen.histogram if bucket.max_tokens > 4) == seen.num_split
    assert seen.num_documents == len(texts)

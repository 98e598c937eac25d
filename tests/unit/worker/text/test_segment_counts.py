"""The counts of segments and tokens that a dry run reports."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from jobs.submission.dry_run import LengthBucket, SegmentCounts
from worker.model_tools.dry_run import count_segments


class OneIdPerWord:
    """A tokenizer: the language label if there is one, one id per word, and the end of sentence."""

    def encode(self, text: str, language: str | None) -> list[int]:
        return [*([7] if language else []), *range(len(text.split())), 0]


def count(*texts: str, target_language: str | None = None, max_tokens: int = 512) -> SegmentCounts:
    return count_segments(
        texts, OneIdPerWord(), source_language="en", target_language=target_language, max_tokens=max_tokens
    )


def test_sentences_and_texts_that_pass_through_are_counted_separately():
    counts = count("It rains. It snows.\n---\n42", "", "- 7 -")

    assert (counts.num_documents, counts.num_empty) == (3, 2)
    assert (counts.num_segments, counts.num_passed_through) == (2, 3)


def test_tokens_are_counted_as_the_model_gets_them():
    assert count("It rains.").num_tokens == 3
    assert count("It rains.", target_language="fra").num_tokens == 4


def test_a_bucket_holds_lengths_up_to_a_power_of_two():
    lengths = [2, 3, 4, 5, 8, 9]  # with the end of sentence

    counts = count(*[" ".join(["rain"] * (length - 1)) for length in lengths])

    assert counts.histogram == (LengthBucket(2, 1), LengthBucket(4, 2), LengthBucket(8, 2), LengthBucket(16, 1))
    assert counts.longest == 9


def test_a_segment_longer_than_the_models_positions_is_counted_as_split():
    assert count("a b c", "a b c d", max_tokens=4).num_split == 1


def test_without_a_text_all_counts_are_zero():
    assert count() == SegmentCounts(0, 0, 0, 0, 0, 0, 0, ())


def test_texts_are_read_one_at_a_time():
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

    counts = count_segments(corpus(), OneIdPerWord(), source_language="en", target_language=None, max_tokens=9)

    assert counts.num_documents == 100


@given(st.lists(st.text("ab. \n1")))
def test_the_histogram_adds_up_to_the_number_of_segments(texts):
    counts = count(*texts, max_tokens=4)

    assert sum(bucket.num_sequences for bucket in counts.histogram) == counts.num_segments
    assert sum(bucket.num_sequences for bucket in counts.histogram if bucket.max_tokens > 4) == counts.num_split
    assert counts.num_documents == len(texts)

"""What `longest_first` leaves of two texts, compared with the library tokenizers."""

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from worker.text.text_pair_tokenizer import kept_lengths

LENGTHS = st.integers(1, 40)


@given(LENGTHS, LENGTHS, st.integers(1, 30))
def test_a_pair_is_cut_as_the_library_cuts_it(query: int, document: int, room: int) -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(room, strategy="longest_first")

    owners = tokenizer.encode("a " * query, "a " * document).sequence_ids

    if query + document > room:
        assert kept_lengths(query, document, room) == (owners.count(0), owners.count(1))

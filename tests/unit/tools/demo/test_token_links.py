"""The true alignment of tokens: that of the words which they are parts of."""

from tools.demo.token_links import token_links
from tools.demo.word_links import LinkedPair, training_linked_pairs
from worker.text.word_alignment import words


def pair() -> LinkedPair:
    """Rain falls here: 这里下雨, whose last two characters are the rain that falls."""
    links = frozenset({(2, 0), (2, 1), (0, 3), (1, 2), (0, 2)})
    return LinkedPair("Rain falls here.", "\u8fd9\u91cc\u4e0b\u96e8\u3002", links, links, (), ())


def test_a_token_comes_from_all_tokens_of_the_words_that_its_words_are_linked_to() -> None:
    source = [(0, 2), (2, 4), (4, 10), (10, 15), (15, 16)]  # Ra in falls here .
    target = [(0, 2), (2, 3), (3, 4), (4, 5)]

    assert token_links(pair(), source, target) == [[3], [0, 1, 2], [0, 1], [], [5]]


def test_every_token_of_a_linked_word_has_links_and_no_other_has() -> None:
    for one in training_linked_pairs(50, seed=4):
        source, target = words(one.english), words(one.chinese)

        found = token_links(one, source, target)

        assert [(i, j) for j, sources in enumerate(found[:-1]) for i in sources] == sorted(
            one.possible, key=lambda link: link[::-1]
        )
        assert found[-1] == [len(source)]

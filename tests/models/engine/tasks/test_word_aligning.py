"""Words of the bundled model's sentences, aligned with those of their translations."""

import dataclasses
from typing import Any

import pytest

from jobs.errors import Stopped
from jobs.outcome import Translation
from jobs.tasks.translate import TranslateOptions
from tests.models.engine.tasks.texts import DictMemory
from tools.demo.word_links import error_rate, unseen_linked_pairs
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.translation import Translator
from worker.engine.tasks.word_aligning import WordAligner
from worker.text.word_alignment import Alignment, words

NUM_PAIRS = 60


@pytest.fixture
def aligner(demo: Any) -> WordAligner:
    found = WordAligner.of(demo.model, demo.tokenizer)
    assert found is not None
    return found


def texts(demo: Any, count: int = 12) -> list[tuple[str, str]]:
    return [(pair.english, pair.chinese) for pair in demo.pairs[:count]]


def test_the_words_of_unseen_sentences_are_aligned_as_the_grammar_made_them(aligner: WordAligner) -> None:
    linked = list(unseen_linked_pairs(NUM_PAIRS, seed=5))

    found = aligner.align([(pair.english, pair.chinese) for pair in linked], None, RunContext())

    links = [{(at, *link) for link in one.links} for at, one in enumerate(found) if one is not None]
    sure, possible = (
        {(at, *link) for at, pair in enumerate(linked) for link in getattr(pair, kind)} for kind in ("sure", "possible")
    )
    assert error_rate(set().union(*links), sure, possible) < 0.25


def test_an_alignment_depends_on_its_pair_alone(demo: Any, aligner: WordAligner) -> None:
    pairs = texts(demo)

    together = aligner.align(pairs, None, RunContext())

    assert together == [aligner.align([pair], None, RunContext())[0] for pair in pairs]
    assert together[::-1] == aligner.align(pairs[::-1], None, RunContext())


def test_links_name_the_words_of_the_two_texts(demo: Any, aligner: WordAligner) -> None:
    for (source, target), found in zip(texts(demo), aligner.align(texts(demo), None, RunContext()), strict=True):
        assert found is not None
        assert (found.source, found.target) == (words(source), words(target))
        assert found.links == tuple(sorted(set(found.links)))
        assert all(i < len(found.source) and j < len(found.target) for i, j in found.links)
        assert found.links


def test_texts_without_words_have_no_links(aligner: WordAligner) -> None:
    found = aligner.align([("", ""), ("!", "。"), ("Rain.", ""), ("", "雨")], None, RunContext())

    assert [one and one.links for one in found] == [()] * 4
    assert found[0] == Alignment((), (), ())


def test_what_the_model_cannot_read_at_once_has_no_alignment(demo: Any) -> None:
    model = dataclasses.replace(demo.model, max_positions=8)
    aligner = WordAligner.of(model, demo.tokenizer)
    assert aligner is not None

    found = aligner.align([("Rain.", "雨。"), ("Rain will fall " * 9, "雨。"), ("Rain.", "雨" * 9)], None, RunContext())

    assert [one is None for one in found] == [False, True, True]


def test_a_translator_aligns_with_its_model_or_says_that_it_cannot(
    demo: Any, translator: Translator, aligner: WordAligner
) -> None:
    pairs, options = texts(demo, 3), TranslateOptions()

    found = Translator(demo.model, demo.tokenizer).align(pairs, options, RunContext())

    assert found == aligner.align(pairs, None, RunContext())
    assert translator.align(pairs, options, RunContext()) == [None] * 3, "of an export"


def test_documents_have_the_alignments_of_their_sentences_where_they_are_asked_for(demo: Any) -> None:
    translator, (first, second) = Translator(demo.model, demo.tokenizer), [pair.english for pair in demo.pairs[:2]]
    asked, memory = TranslateOptions(alignments=True), DictMemory()
    documents = [f"{first} {second}", second]
    plain = translator.translate(documents, TranslateOptions(), RunContext(memory=memory))
    memory.update(plain.learned)

    computed = translator.translate(documents, asked, RunContext()).outcomes
    reused = translator.translate(documents, asked, RunContext(memory=memory)).outcomes

    for text, one, again, without in zip(documents, computed, reused, plain.outcomes, strict=True):
        assert isinstance(one, Translation)
        assert isinstance(again, Translation)
        assert dataclasses.replace(one, alignments=()) == without
        assert again.alignments == one.alignments
        assert again.num_reused == again.num_segments
        spans = [span for segment in one.alignments if segment for span in segment.source]
        assert spans == list(words(text)), "all words of the document"


def test_it_stops_between_two_batches(demo: Any, aligner: WordAligner) -> None:
    with pytest.raises(Stopped):
        aligner.align(texts(demo), None, RunContext(should_stop=lambda: True))

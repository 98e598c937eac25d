"""
Which words may stand in for placeholders in a model's sentences: tried on made-up sentences, so that a model of any
language can be added without a corpus.

A word is put into sentences of random pieces. What most of their translations have, and those of the same sentences
without the word do not, is what the model writes for it. A number has to be copied; a name may be written in another
script, but by models with several target languages it has to be copied too, since another language writes it otherwise.

Known to be short: made-up sentences are unlike those that a model was trained on. So a word counts that comes through
often, and whether it did is asked of each translation (`worker.text.marks.stand_ins`).
"""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from jobs.errors import SpecError
from jobs.system.process import available_cores
from jobs.tasks.shared_options import Timing
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.seq2seq.protocol import Seq2SeqModel, decode_all
from worker.text.marks.known_words import NO_STAND_INS, StandIn, StandIns
from worker.text.marks.stand_ins import NUMBERS
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer
from worker.text.word_alignment import words

# Names of people and towns: known ones, which models of large corpora write, and those of towns in England. A model
# whose vocabulary has neither, as one for a small language in another script, has no names.
_NAMES = ("London", "Berlin", "Maria", "Anna", "Whitby", "Newhaven", "Vernon", "Ashford", "Harlow")
_MAX_NAMES = 4
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SENTENCES = 32
_PIECES = 4
_MAX_TOKENS = 24  # of a translation
_MAX_WORDS = 8  # of what is written for a name
# The bundled model writes names that it knows in 0.72 to 0.94 of the sentences; of those that it does not know, the
# text that comes up most is in 0.16 to 0.56 (32 sentences, 14 names, 2026-11-27). It copies 17 in 0.66, as a part of a
# number in most, and in bulletins as a number in 0.81.
_SHARE_OF_NAMES, _SHARE_OF_NUMBERS = 0.65, 0.3


def try_stand_ins(folder: Path) -> StandIns:
    """The words that the model in `folder` writes always in the same way. Raises ModelError where it cannot be
    opened."""
    model, tokenizer = open_seq2seq_model(folder, threads=available_cores()), open_translation_tokenizer(folder)
    try:
        trial = _Trial(model, tokenizer.for_source("en"))
    except SpecError:
        return NO_STAND_INS  # the names are in letters that its languages may not have
    number = NUMBERS[0][0]
    copied = sum(number in text for text in trial.translations(number))
    names, days = (
        [
            StandIn(word, written)
            for word in words
            if (written := trial.written(word)) and (written == word or not tokenizer.languages)
        ]
        for words in (_NAMES, _DAYS)
    )
    return StandIns(copied >= _SHARE_OF_NUMBERS * _SENTENCES, tuple(names[:_MAX_NAMES]), tuple(days))


class _Trial:
    """Made-up sentences, and how a model translates them with a word in them."""

    def __init__(self, model: Seq2SeqModel, tokenizer: Seq2SeqTokenizer) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._language = _language(tokenizer)
        rng = Random(0)
        empty = tokenizer.draw(rng, 0)
        self._num_behind = len(empty) - empty.index(tokenizer.eos_id)  # the end, and a language that comes after it
        self._sentences = [tokenizer.draw(rng, _PIECES) for _ in range(_SENTENCES)]
        self._places = [rng.randint(0, _PIECES) for _ in self._sentences]
        self._without = Counter(run for text in self.translations("") for run in _runs(text))

    def translations(self, word: str) -> list[str]:
        """Of each sentence with the word in it."""
        spans = self._tokenizer.source_spans(word, self._language)
        encoded = self._tokenizer.encode(word, self._language)
        ids = [token for token, span in zip(encoded, spans, strict=True) if span is not None]
        sources = []
        for sentence, place in zip(self._sentences, self._places, strict=True):
            at = len(sentence) - self._num_behind - place
            sources.append([*sentence[:at], *ids, *sentence[at:]])
        beginning = self._tokenizer.beginning(self._language)
        rules = self._model.generation
        rules = dataclasses.replace(
            rules, num_beams=1, max_new_tokens=min(rules.max_new_tokens, _MAX_TOKENS)
        ).with_beginning(beginning.start_id, beginning.forced_id)
        run = RunContext(Stopwatch(Timing.OFF))
        found = decode_all(self._model.new_decoder(), sources, rules, run, batch_size=None)
        return [self._tokenizer.decode(best.ids) for best, *_ in found]

    def written(self, name: str) -> str | None:
        """What the model writes for a name: of the texts that nearly as many translations have as the most frequent
        one, and that have none without the name, the longest. None: it is in too few."""
        found = Counter(run for text in self.translations(name) for run in _runs(text))
        more = {run: count - self._without[run] for run, count in found.items()}
        most = max(more.values(), default=0)
        if most < _SHARE_OF_NAMES * _SENTENCES:
            return None
        longest = max((run for run in more if more[run] >= 0.9 * most), key=len)
        return longest if len(longest) > 1 else None


def _language(tokenizer: Seq2SeqTokenizer) -> str | None:
    """English; else the model's only target language or the first."""
    for language in ("en", None):
        try:
            tokenizer.check_language(language)
        except SpecError:
            continue
        return language
    return min(tokenizer.languages)


def _runs(text: str) -> set[str]:
    """All runs of words in a text."""
    spans: Sequence[tuple[int, int]] = words(text)
    return {
        text[spans[first][0] : stop] for first in range(len(spans)) for _, stop in spans[first : first + _MAX_WORDS]
    }

"""
Sentences whose translations lack terms of the glossary, decoded once more with these terms required.

    source  "Light rain."     wanted  rain: Regen
    plain   "Leichte Schauer."     -0.21 a token
    again   "Leichter Regen."      -0.43     taken: it has the term, and costs less than MAX_LOSS

Where the first decoding loses another term that the plain translation has, a second one requires all terms of the
sentence. If nothing is taken, the plain translation stays, and so does its flag.

Knows: one lane's model and decoder, sentences with their terms. Does not know: documents, the memory.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jobs.outcome import Flag, HypothesisSums, SegmentTranslation
from jobs.terms.term import Term
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import GenerationConfig, SegmentRules
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.required_phrases import MAX_REQUIREMENTS, Phrases, longest
from worker.engine.seq2seq.protocol import Decoder, Seq2SeqModel, decode_all
from worker.engine.tasks.term_check import lacking_terms
from worker.engine.tasks.term_phrases import continuing_ids, phrases_of
from worker.text.loops import has_loop
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer

MAX_LOSS = 0.75  # nats of a token: how much less likely than the plain one a translation that is taken may be
LEAST_BEAMS = 8
_LONGER, _MORE_TOKENS = 2, 8  # a translation with terms has so many times the tokens of the plain one, and some more
_ROUNDS = 2
_KEPT_PHRASES = 1 << 14
_NOT_AGAIN = {Flag.SPLIT, Flag.IMPORTED}  # translated in pieces, of which a term is in one; and by people


@dataclass(frozen=True, slots=True)
class LackingSentence:
    """A sentence and its translation, which lacks some of its terms."""

    source: str
    prefix: tuple[int, ...]  # the ids with which the translation begins
    terms: tuple[Term, ...]  # of the sentence
    plain: SegmentTranslation

    @property
    def lacking(self) -> list[Term]:
        return lacking_terms(self.terms, self.plain.texts[0])


def may_be_decoded_again(plain: SegmentTranslation) -> bool:
    """Whether a translation is the model's, of one piece, with numbers to compare."""
    return not _NOT_AGAIN.intersection(plain.flags) and plain.num_target_tokens > 0


class TermDecoder:
    """Decodes with required terms, for one lane."""

    def __init__(self, model: Seq2SeqModel, tokenizer: Seq2SeqTokenizer, max_loss: float = MAX_LOSS) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._max_loss = max_loss
        self._phrases: dict[Term, Phrases] = {}
        self._continuing: tuple[int, ...] | None = None  # None: not needed yet

    def digest(self, digest: bytes, sentence: LackingSentence) -> bytes:
        """The digest for the memory, of what the result of a sentence depends on besides its text; `digest`: of model
        and options."""
        terms = [[term.targets, term.target_is_cased, term.is_whole] for term in sentence.terms]
        lacking = [sentence.terms.index(term) for term in sentence.lacking]
        content = json.dumps(["terms", self._max_loss, LEAST_BEAMS, sentence.prefix, terms, lacking])
        return hashlib.sha256(digest + content.encode()).digest()

    def decode(
        self,
        sentences: Sequence[LackingSentence],
        sources: Sequence[Sequence[int]],
        decoder: Decoder,
        rules: GenerationConfig,
        run: RunContext,
        *,
        batch_size: int | None,
    ) -> list[SegmentTranslation]:
        """The translations of sentences, of which `sources` are the ids, with as many of their terms as are lacking and
        the model can write; where there is none within the bound, the plain one. Raises as `Decoder.decode`."""
        results = [sentence.plain for sentence in sentences]
        wanted = {index: self._writable(sentence.lacking) for index, sentence in enumerate(sentences)}
        for _ in range(_ROUNDS):
            wanted = {index: terms for index, terms in wanted.items() if terms}
            if not wanted:
                break
            again = self._rules(rules, [(sentences[index], terms) for index, terms in wanted.items()])
            decoded = decode_all(decoder, [sources[index] for index in wanted], again, run, batch_size=batch_size)
            next_wanted = {}
            for (index, terms), hypotheses in zip(wanted.items(), decoded, strict=True):
                sentence = sentences[index]
                found = self._acceptable(sentence, terms, hypotheses, run)
                may_lack = set(sentence.lacking) - set(terms)
                if good := [one for one in found if may_lack.issuperset(lacking_terms(sentence.terms, one[1]))]:
                    results[index] = _with_hypotheses(sentence.plain, good, len(sources[index]))
                elif found:
                    next_wanted[index] = self._writable(sentence.terms)
            wanted = next_wanted
        return results

    def _acceptable(
        self, sentence: LackingSentence, wanted: Sequence[Term], hypotheses: Sequence[Hypothesis], run: RunContext
    ) -> list[tuple[Hypothesis, str]]:
        """The hypotheses with their texts that have what is wanted and are within the bound."""
        least = sentence.plain.log_prob / sentence.plain.num_target_tokens - self._max_loss
        likely = [each for each in hypotheses if not each.truncated and each.log_prob / len(each.ids) >= least]
        with run.measure("detokenize", rows=len(likely), tokens=sum(len(each.ids) for each in likely)):
            texts = [(each, self._tokenizer.decode(each.ids)) for each in likely]
        return [
            (each, text)
            for each, text in texts
            if not lacking_terms(wanted, text) and not has_loop(text, sentence.source)
        ]

    def _writable(self, terms: Sequence[Term]) -> list[Term]:
        """The terms that the model can write."""
        return [term for term in terms if self._ids(term)][:MAX_REQUIREMENTS]

    def _ids(self, term: Term) -> Phrases:
        if term not in self._phrases:
            if len(self._phrases) == _KEPT_PHRASES:
                self._phrases.clear()
            self._phrases[term] = phrases_of(term, self._tokenizer, self._model.new_scorer().has_ids)
        return self._phrases[term]

    def _rules(
        self, rules: GenerationConfig, wanted: Sequence[tuple[LackingSentence, Sequence[Term]]]
    ) -> GenerationConfig:
        """The rules of a search for these sentences with these terms."""
        if self._continuing is None:
            self._continuing = continuing_ids(self._tokenizer)
        return replace(
            rules,
            continuing_ids=self._continuing,
            num_beams=max(rules.num_beams, LEAST_BEAMS),
            segments=tuple(
                SegmentRules(sentence.prefix, required=required, longest=_longest(sentence.plain, required))
                for sentence, terms in wanted
                for required in [tuple(map(self._ids, terms))]
            ),
        )


def _longest(plain: SegmentTranslation, required: Sequence[Phrases]) -> int:
    """The most tokens of a translation with these phrases."""
    return _LONGER * plain.num_target_tokens + sum(map(longest, required)) + _MORE_TOKENS


def _with_hypotheses(
    plain: SegmentTranslation, found: Sequence[tuple[Hypothesis, str]], num_source_tokens: int
) -> SegmentTranslation:
    """A translation with these hypotheses in place of the plain ones, at most as many."""
    found = found[: len(plain.texts)]
    best, _ = found[0]
    sums = tuple(HypothesisSums(each.log_prob, len(each.ids), each.truncated) for each, _ in found)
    return SegmentTranslation(
        texts=tuple(text for _, text in found),
        scores=tuple(hypothesis.score for hypothesis, _ in found),
        log_prob=best.log_prob,
        num_source_tokens=num_source_tokens,
        num_target_tokens=len(best.ids),
        sums=sums if plain.sums else (),
    )

"""
Documents as their sentences, and back: what stands before and behind the translation of sentences.

    texts    cut          -> sentences    of all texts in one list; with `reuse`, equal sentences are one
             standing_in  -> sentences    with words in place of placeholders
             (translated elsewhere)
             tried_again  -> sentences    behind those, where a translation lacks such a word
             outcomes     -> documents    in the order of the texts

Knows: where sentences begin and end, which of them are equal, where marks were. Does not know: models, memories.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from jobs.outcome import Failed, Flag, Outcome, SegmentTranslation, Translation
from jobs.tasks.translate import Placeholders, TranslateOptions
from jobs.text.markup import Markup
from worker.engine.tasks.document_assembly import join_document, merge_flags
from worker.engine.tasks.length_limit import (
    fitting_choice,
    only_first,
    shortest_choice,
    with_chosen_first,
    with_hypothesis,
)
from worker.engine.tasks.marked_translation import Alignments, with_marks
from worker.text.marks.check import lost_placeholders
from worker.text.marks.finding import EndlessPattern
from worker.text.marks.known_words import StandIns
from worker.text.marks.mark import MarkRules
from worker.text.marks.marked_text import MarkedSentence, marked_spans
from worker.text.marks.stand_ins import Attempt, has_words
from worker.text.segments import Span

ENDLESS_PATTERN = "endless-pattern"  # error_code of a document on which a pattern of --keep takes too long


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One sentence of a document."""

    index: int  # in the list of all sentences of the call
    is_first: bool  # whether no earlier occurrence has that index
    marked: MarkedSentence | None = None  # None: no mark is in it
    attempt: Attempt | None = None  # what `marked` is, where words stand in for marks


@dataclass(frozen=True, slots=True)
class CutDocument:
    """A text as spans, and the occurrences of its sentences."""

    spans: list[Span]
    sentences: list[Occurrence]
    checks_numbers: bool = False  # whether a number that is lost is flagged
    markup: Markup = Markup.NONE
    are_drawn: bool = False  # whether its translations are samples
    failed: Failed | None = None  # why it cannot be cut; then it has no spans

    def num_reused(self, computed: Set[int]) -> int:
        """How many of its sentences were reused, not translated for it. `computed`: indices that a model translated."""
        return sum(not (sentence.is_first and sentence.index in computed) for sentence in self.sentences)

    def joined(
        self,
        found: Sequence[SegmentTranslation],
        plain: Sequence[str],
        computed: Set[int],
        *,
        alignments: Alignments,
        n_best: int,
        limit: int | None = None,
    ) -> Translation:
        """The document with its sentences translated. `found`: of all sentences of the call, which are `plain`;
        `limit`: the most characters that the document should have."""
        own = [found[sentence.index] for sentence in self.sentences]
        read = [plain[sentence.index] for sentence in self.sentences]
        marked = self._with_marks(own, read, alignments)
        num_reused = self.num_reused(computed)
        joined = join_document(self.spans, marked, num_reused=num_reused, n_best=n_best, are_drawn=self.are_drawn)
        if limit is None:
            return joined
        choice = fitting_choice(self.spans, marked, limit, self.markup)
        fits = choice is not None
        chosen = [
            with_hypothesis(each, index, sentence)
            for each, index, sentence in zip(own, choice or shortest_choice(marked, self.markup), read, strict=True)
        ]
        marked = self._with_marks(chosen, read, alignments)
        fitted = join_document(self.spans, [only_first(each) for each in marked], num_reused=num_reused, n_best=1)
        if not fits:
            fitted = replace(fitted, flags=merge_flags(fitted.flags, [Flag.TOO_LONG]))
        return with_chosen_first(fitted, marked, joined.alternatives, n_best)

    def checked(self, translation: Translation) -> Translation:
        """The translation of this document, with a flag where marks were not looked for and one was lost."""
        if self.checks_numbers or not lost_placeholders("".join(span.text for span in self.spans), translation.text):
            return translation
        return replace(translation, flags=merge_flags(translation.flags, [Flag.PLACEHOLDER_LOST]))

    def _with_marks(
        self, own: Sequence[SegmentTranslation], read: Sequence[str], alignments: Alignments
    ) -> list[SegmentTranslation]:
        """The translations of this document's sentences with their marks. `read`: what the model read of each."""
        if not self.checks_numbers:
            return list(own)
        return [
            with_marks(each, plain, sentence.marked, alignments)
            for each, plain, sentence in zip(own, read, self.sentences, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class CutTexts:
    """The sentences of all texts of a call, and the texts as documents of them."""

    sentences: list[str]
    documents: list[CutDocument]
    prefixes: list[str]  # of the sentences: the text with which the translation of each begins, "" for none

    @classmethod
    def of(
        cls, texts: Sequence[str], options: TranslateOptions, prefixes: Sequence[str | None] | None = None
    ) -> "CutTexts":
        """Cut every text. With `options.reuse`, equal sentences are one. `prefixes`: the text with which the
        translation of each text begins, which is that of its first sentence."""
        rules = rules_of(options)
        unique = _Sentences([], [], are_shared=options.reuse)
        documents = []
        for text, prefix in zip(texts, prefixes or [None] * len(texts), strict=True):
            document = CutDocument(
                [], [], checks_numbers=bool(rules), markup=options.markup, are_drawn=bool(options.temperature)
            )
            try:
                spans = marked_spans(text, options.source_language, rules, options.segment)
            except EndlessPattern as error:
                documents.append(replace(document, failed=Failed(ENDLESS_PATTERN, str(error))))
                continue
            for span, marked in spans:
                document.spans.append(span)
                if span.translatable:
                    plain = span.text if marked is None else marked.plain
                    begins_with = "" if document.sentences else prefix or ""
                    document.sentences.append(Occurrence(*unique.add(plain, begins_with), marked))
            documents.append(document)
        return cls(unique.texts, documents, unique.prefixes)

    def with_placeholders(self) -> list[str]:
        """The sentences that have placeholders which another word may stand in for."""
        return [
            self.sentences[index]
            for index in sorted(
                {
                    sentence.index
                    for document in self.documents
                    for sentence in document.sentences
                    if sentence.marked is not None and has_words(sentence.marked)
                }
            )
        ]

    def standing_in(self, known: StandIns, settled: Collection[str], *, are_shared: bool) -> "CutTexts":
        """With stand-ins that the model knows in the sentences that hold placeholders, but for those that are
        `settled`. `are_shared`: whether equal sentences are one."""

        def attempt(sentence: Occurrence) -> Attempt | None:
            is_open = sentence.marked is not None and self.sentences[sentence.index] not in settled
            return Attempt.first(sentence.marked, known) if is_open and sentence.marked is not None else None

        return self._with_attempts(attempt, _Sentences([], [], are_shared)) if known else self

    def tried_again(self, *found: Sequence[SegmentTranslation], are_shared: bool) -> "CutTexts | None":
        """With other stand-ins where a translation of a sentence lacks one; these sentences are behind those that there
        were. `found`: the translations by each model. None: none lacks one."""

        def attempt(sentence: Occurrence) -> Attempt | None:
            results = [some[sentence.index] for some in found]
            if sentence.attempt is None or not all(map(is_finite, results)):
                return None
            return sentence.attempt.next([text for result in results for text in result.texts])

        again = self._with_attempts(attempt, _Sentences([*self.sentences], [*self.prefixes], are_shared))
        return again if again.documents is not self.documents else None

    def _with_attempts(self, attempt: Callable[[Occurrence], Attempt | None], sentences: "_Sentences") -> "CutTexts":
        """The texts with the sentences of other attempts; None: a sentence stays as it is."""
        is_new = not sentences.texts
        any_tried = False
        documents = []
        for document in self.documents:
            occurrences = []
            for sentence in document.sentences:
                tried = attempt(sentence)
                any_tried |= tried is not None
                if tried is not None or is_new:
                    marked = sentence.marked if tried is None else tried.sentence
                    plain = self.sentences[sentence.index] if tried is None else tried.sentence.plain
                    place = sentences.add(plain, self.prefixes[sentence.index])
                    sentence = Occurrence(*place, marked, tried)
                occurrences.append(sentence)
            documents.append(replace(document, sentences=occurrences))
        return CutTexts(sentences.texts, documents, sentences.prefixes) if any_tried else self

    def without_stand_ins(self) -> list[str]:
        """The sentences, with a sign in place of each stand-in, which is no word of the text."""
        found = list(self.sentences)
        for document in self.documents:
            for sentence in document.sentences:
                if sentence.marked is not None and sentence.marked.stood_in:
                    found[sentence.index] = sentence.marked.without_stand_ins()
        return found

    @property
    def has_marks(self) -> bool:
        """Whether a sentence holds marks that are placed by alignment."""
        return any(True for _ in self._with_marks())

    def _with_marks(self) -> Iterator[Occurrence]:
        for document in self.documents:
            for sentence in document.sentences:
                if sentence.marked is not None and sentence.marked.marks:
                    yield sentence

    def pairs_to_align(self, found: Sequence[SegmentTranslation]) -> list[tuple[str, str]]:
        """The sentences that hold marks with their translations, each pair once."""
        marked = {sentence.index for sentence in self._with_marks()}
        pairs = {
            (self.sentences[index], text): None
            for index in sorted(marked)
            if is_finite(found[index])
            for text in found[index].texts
            if text and text != self.sentences[index]
        }
        return list(pairs)

    def outcome(
        self,
        document: CutDocument,
        found: Sequence[SegmentTranslation],
        computed: Set[int],
        alignments: Alignments,
        *,
        n_best: int,
        limit: int | None,
    ) -> Outcome:
        """The document with its sentences translated; Failed where one of them is not finite."""
        return self.failure(document, found, "the model's") or document.checked(
            document.joined(found, self.sentences, computed, alignments=alignments, n_best=n_best, limit=limit)
        )

    def failure(self, document: CutDocument, found: Sequence[SegmentTranslation], whose: str) -> Failed | None:
        """Why a document has no translation; None: it has one. `whose` logits, in a sentence."""
        if document.failed is not None:
            return document.failed
        for occurrence in document.sentences:
            if not is_finite(found[occurrence.index]):
                sentence = _shorten(self.sentences[occurrence.index])
                return Failed(
                    "non-finite", f"{whose} logits are not finite (NaN or infinity) for the sentence {sentence}"
                )
        return None


def rules_of(options: TranslateOptions) -> MarkRules:
    """What counts as a mark with these options."""
    return MarkRules.of(options.markup, options.placeholders == Placeholders.AUTO, options.keep, options.no_translate)


class _Sentences:
    """Sentences in one list, equal ones once where they are shared."""

    def __init__(self, texts: list[str], prefixes: list[str], are_shared: bool) -> None:
        self.texts, self.prefixes = texts, prefixes
        self._are_shared = are_shared
        self._indices = {pair: index for index, pair in enumerate(zip(texts, prefixes, strict=True))}

    def add(self, text: str, prefix: str) -> tuple[int, bool]:
        """The index of a sentence whose translation begins with `prefix`, and whether it is new."""
        index = self._indices.get((text, prefix)) if self._are_shared else None
        if index is not None:
            return index, False
        self._indices[text, prefix] = len(self.texts)
        self.texts.append(text)
        self.prefixes.append(prefix)
        return len(self.texts) - 1, True


def is_finite(result: SegmentTranslation) -> bool:
    """Whether the model's logits were numbers."""
    return math.isfinite(result.log_prob)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")

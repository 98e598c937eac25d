"""Compares two jobs: matches their documents and collects how the results differ, in bounded memory."""

import heapq
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson

from jobs import measures
from jobs.choices import By
from jobs.comparison.comparable import Contrast, contrasts, notes, provider_notes, require_comparable
from jobs.comparison.judged_rankings import JudgedMeasure, JudgedRankings
from jobs.comparison.rankings import RankingAgreement, RankingsCompared
from jobs.comparison.reference_scores import ReferenceScore, ReferenceScores
from jobs.comparison.scores import ScoresCompared, ScoreShift
from jobs.comparison.speed import Speed, compare_speed
from jobs.comparison.translations import TranslationAgreement, TranslationsCompared
from jobs.errors import SpecError
from jobs.retrieval.metrics import Qrels
from jobs.store.database import Database
from jobs.store.report.documents.matched_documents import (
    LARGEST_PAGE,
    Matched,
    MatchedBy,
    find_matching,
    matched_pages,
    read_details,
)
from jobs.store.report.job_providers import providers_of
from jobs.store.report.job_summary import JobSummary
from jobs.store.report.live_job import LiveJob
from jobs.store.report.timings.steps import summarize_steps
from jobs.tasks.kind import Compared
from jobs.tasks.kinds import KINDS
from jobs.text.formatting import count, counted

Agreement = TranslationAgreement | ScoreShift | RankingAgreement


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of a comparison."""

    largest: int = 10  # of the largest differences
    reference: str | None = None  # field of the corpus with the reference translation
    with_test: bool = True  # of the difference in chrF and BLEU
    qrels: Qrels | None = None  # relevance judgements
    measures: Sequence[str] = ()  # of rankings, by their names in ir-measures; empty: `jobs.retrieval.metrics.MEASURES`


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a comparison may read before it stops. A page of the dashboard sets bounds, the command line none; they
    are checked between two pages of documents."""

    documents: int | None = None  # of the first job
    seconds: float | None = None
    page: int = LARGEST_PAGE  # documents


@dataclass(frozen=True, slots=True)
class Difference:
    """A document whose results differ."""

    id: str | None
    a_position: int
    b_position: int
    value: float  # translations: share of changed words; scores: B minus A; rankings: 1 - RBO
    a: Any  # the translation; nats per token or bits per byte; ids of the candidates, best first
    b: Any
    text: str | None  # the document's payload


@dataclass(slots=True)
class Coverage:
    """How many documents the jobs have in common, of those that were read."""

    matched_by: MatchedBy
    read: int = 0  # documents of A
    matched: int = 0  # with a document in B
    compared: int = 0  # matched, with a result in both
    only_a_result: int = 0  # matched, with a result in A alone
    only_b_result: int = 0
    other_text: int = 0  # matched, but their texts differ
    is_complete: bool = True  # all documents of A were read
    only_a: int = 0  # documents of A without one in B
    only_b: int | None = None  # None where not all were read

    @property
    def sentence(self) -> str:
        by = "by id" if self.matched_by is MatchedBy.ID else "by position, since neither corpus has ids"
        start = f"{counted(self.matched, 'document')} matched {by}"
        if not self.is_complete:
            return f"{start}, among the first {count(self.read)} of A; {count(self.only_a)} of these are only in A."
        return f"{start}; {count(self.only_a)} only in A, {count(self.only_b)} only in B."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two jobs side by side."""

    a: LiveJob
    b: LiveJob
    contrasts: Sequence[Contrast]
    coverage: Coverage
    speed: Speed
    agreement: Agreement
    reference_scores: Sequence[ReferenceScore] = ()
    judged: Sequence[JudgedMeasure] = ()
    largest: Sequence[Difference] = ()
    notes: Sequence[str] = field(default_factory=list)

    @property
    def flags(self) -> Sequence[tuple[str, int, int]]:
        """Each flag that a result of either job has, with the number of documents of both."""
        a, b = self.a.flags, self.b.flags
        return [(flag, a.get(flag, 0), b.get(flag, 0)) for flag in dict.fromkeys([*a, *b])]


def compare(
    database: Database,
    a: LiveJob,
    b: LiveJob,
    wanted: Wanted,
    bounds: Bounds,
    tell_read: Callable[[int], None] = lambda read: None,
) -> Comparison:
    """Compare two jobs. Calls `tell_read` with the number of documents read so far. Raises SpecError where they cannot
    be compared, and where what is asked for does not fit their task."""
    require_comparable(a, b)
    _require_fitting(a, wanted)
    with database.reading() as connection:
        how = find_matching(connection, a, b, wanted.reference)
        speed = compare_speed(a, b, *(summarize_steps(connection, job.job_id, By.PHASE) for job in (a, b)))
        who_answered = list(provider_notes((job, providers_of(connection, job)) for job in (a, b)))
    collector = _COLLECTORS[a.kind.compared_as](wanted)
    coverage = Coverage(how.by)
    deadline = None if bounds.seconds is None else time.monotonic() + bounds.seconds
    for page in matched_pages(database, a, b, how, bounds.page):
        for document in page if bounds.documents is None else page[: bounds.documents - coverage.read]:
            _count(coverage, document)
            if document.a is not None and document.b is not None:
                collector.add(document, document.a, document.b)
        tell_read(coverage.read)
        is_over = deadline is not None and time.monotonic() > deadline
        if is_over or (bounds.documents is not None and coverage.read >= bounds.documents):
            coverage.is_complete = coverage.read >= a.documents
            break
    coverage.only_b = b.documents - coverage.matched if coverage.is_complete else None
    found = collector.largest()
    return Comparison(
        a=a,
        b=b,
        contrasts=contrasts(a, b),
        coverage=coverage,
        speed=speed,
        agreement=collector.agreement(),
        reference_scores=collector.reference_scores(),
        judged=collector.judged(),
        largest=list(_with_details(database, a, b, found, collector)),
        notes=[*who_answered, *notes(a, b), *_notes_of(coverage, collector)],
    )


class _Collector(ABC):
    """What all tasks share: the documents with the largest differences."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._largest: Largest[Matched] = Largest(wanted.largest)

    @abstractmethod
    def add(self, document: Matched, a: Sequence[Any], b: Sequence[Any]) -> None:
        """Take a document of both jobs, and its results in them."""

    @abstractmethod
    def agreement(self) -> Agreement:
        """How far the documents taken so far agree."""

    def show(self, values: Sequence[Any]) -> Any:
        """What `Difference.a` and `Difference.b` hold for these values of a result."""
        return values[0]

    def largest(self) -> list[tuple[float, Matched]]:
        """(signed difference, document) of the documents that differ most, the largest difference first."""
        return self._largest.items()

    def reference_scores(self) -> Sequence[ReferenceScore]:
        return ()

    def judged(self) -> Sequence[JudgedMeasure]:
        return ()

    def notes(self) -> Iterator[str]:
        yield from ()


class _Translations(_Collector):
    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._compared = TranslationsCompared()
        self._references = None if wanted.reference is None else ReferenceScores(wanted.with_test)

    def add(self, document: Matched, a: Sequence[Any], b: Sequence[Any]) -> None:
        changed = self._compared.add(a[0], b[0])
        if a[0] != b[0]:
            self._largest.add(changed, document)
        if self._references is not None and document.reference:
            self._references.add(a[0], b[0], document.reference)

    def agreement(self) -> TranslationAgreement:
        return self._compared.result()

    def reference_scores(self) -> Sequence[ReferenceScore]:
        return self._references.result() if self._references is not None else ()


class _Scores(_Collector):
    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._compared = ScoresCompared()
        # The unit is known at the end only, so both are kept.
        self._by_unit = [Largest[tuple[float, Matched]](wanted.largest) for _ in range(2)]

    def add(self, document: Matched, a: Sequence[Any], b: Sequence[Any]) -> None:
        for largest, value in zip(self._by_unit, self._compared.add(a, b) or (), strict=False):
            if value:
                largest.add(abs(value), (value, document))

    def agreement(self) -> ScoreShift:
        return self._compared.result()

    def largest(self) -> list[tuple[float, Matched]]:
        chosen = self._by_unit[0 if self._compared.is_per_token else 1]
        return [signed for _, signed in chosen.items()]

    def show(self, values: Sequence[Any]) -> Any:
        nll_sum, num_tokens, num_bytes = values
        return nll_sum / num_tokens if self._compared.is_per_token else measures.bits_per_byte(nll_sum, num_bytes)

    def notes(self) -> Iterator[str]:
        shift = self._compared.result()
        if shift.caution:
            yield shift.caution
        if shift.same_bytes < shift.documents:
            yield (
                f"Scored in other parts by B than by A (another window, maximal length or BOS): "
                f"{counted(shift.documents - shift.same_bytes, 'document')}."
            )
        if shift.unscored:
            yield f"Without a scored token in one of the jobs, and left out: {counted(shift.unscored, 'document')}."


class _Rankings(_Collector):
    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._compared = RankingsCompared()
        self._judged = None if wanted.qrels is None else JudgedRankings(wanted.qrels, wanted.measures)

    def add(self, document: Matched, a: Sequence[Any], b: Sequence[Any]) -> None:
        first, second = self.show(a), self.show(b)
        distance = self._compared.add(first, second)
        if first != second:
            self._largest.add(distance, document)
        if self._judged is not None and document.id is not None:
            self._judged.add(document.id, first, second)

    def agreement(self) -> RankingAgreement:
        return self._compared.result()

    def judged(self) -> Sequence[JudgedMeasure]:
        return self._judged.result() if self._judged is not None else ()

    def show(self, values: Sequence[Any]) -> list[str]:
        return [candidate["id"] for candidate in orjson.loads(values[0])]

    def notes(self) -> Iterator[str]:
        agreement = self._compared.result()
        if agreement.other_candidates:
            yield (
                f"With other candidates in B than in A: {counted(agreement.other_candidates, 'query')}; Kendall's tau "
                "and rank changes are of the common ones."
            )


_COLLECTORS: Mapping[Compared | None, type[_Collector]] = {
    Compared.TEXTS: _Translations,
    Compared.SCORES: _Scores,
    Compared.RANKINGS: _Rankings,
}


def _require_fitting(job: JobSummary, wanted: Wanted) -> None:
    for asked, needed, name in (
        (wanted.reference, Compared.TEXTS, "a reference field is"),
        (wanted.qrels, Compared.RANKINGS, "relevance judgements are"),
    ):
        if asked is not None and job.kind.compared_as is not needed:
            tasks = " or ".join(kind.name for kind in KINDS.values() if kind.compared_as is needed)
            raise SpecError(f"{name} for jobs that {tasks}, and the task of these is {job.task}")


def _count(coverage: Coverage, document: Matched) -> None:
    coverage.read += 1
    if document.other_position is None:
        coverage.only_a += 1
        return
    coverage.matched += 1
    coverage.compared += document.a is not None and document.b is not None
    coverage.only_a_result += document.a is not None and document.b is None
    coverage.only_b_result += document.a is None and document.b is not None
    coverage.other_text += not document.has_same_text


def _notes_of(coverage: Coverage, collector: _Collector) -> Iterator[str]:
    if coverage.other_text:
        yield (
            f"With another text in B than in A: {counted(coverage.other_text, 'matched document')}; their results "
            "differ for that reason, too."
        )
    for number, name in ((coverage.only_a_result, "A"), (coverage.only_b_result, "B")):
        if number:
            yield f"With a result in {name} alone, and not compared: {counted(number, 'matched document')}."
    yield from collector.notes()


def _with_details(
    database: Database, a: JobSummary, b: JobSummary, found: Sequence[tuple[float, Matched]], collector: _Collector
) -> Iterator[Difference]:
    """The documents with their texts, which were not kept while reading."""
    with database.reading() as connection:
        of_a = read_details(connection, a, [document.position for _, document in found])
    for value, document in found:
        assert document.a is not None
        assert document.b is not None
        assert document.other_position is not None
        text = of_a[document.position].text if document.position in of_a else None
        yield Difference(
            document.id,
            document.position,
            document.other_position,
            value,
            collector.show(document.a),
            collector.show(document.b),
            text,
        )


T = TypeVar("T")


class Largest(Generic[T]):
    """Keeps the `limit` items with the largest values; of equal ones, those that came first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._heap: list[tuple[float, int, T]] = []
        self._added = 0

    def add(self, value: float, item: T) -> None:
        self._added += 1
        entry = (value, -self._added, item)
        if len(self._heap) < self._limit:
            heapq.heappush(self._heap, entry)
        elif self._heap and entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def items(self) -> list[tuple[float, T]]:
        """The kept (value, item) pairs, the largest value first."""
        return [(value, item) for value, _, item in sorted(self._heap, reverse=True)]

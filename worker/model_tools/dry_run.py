"""The work of a job, counted with the model's tokenizer and the sentence splitter, without running the model."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import open_corpus
from jobs.corpus.scratch import scratch_tables
from jobs.documents import Document, LineName, Record, Rejected, duplicate
from jobs.errors import ModelError, NotFoundError
from jobs.providers import ONNX
from jobs.spec import JobSpec
from jobs.stage import Stage
from jobs.submission.corpus_check import check_records
from jobs.submission.document_changes import with_changes
from jobs.submission.dry_run import DryRun, LengthBucket, SegmentCounts, SequenceCounts
from jobs.submission.filter_fields import resolve_fields
from jobs.submission.progress import OnProgress, ProgressReporter
from jobs.submission.shards import cut_batches, shard_tokens
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kind import PayloadKind
from jobs.tasks.kinds import Options
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.translate import Segmentation, TranslateOptions
from worker.engine.causal.open import open_causal_model, open_causal_tokenizer, open_chat_tokenizer
from worker.engine.cross_encoder.model import CrossEncoder
from worker.engine.cross_encoder.pair_reader import open_pair_reader
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.tasks.generation import PromptContinuer
from worker.engine.tasks.rerank.prompt_templates import template_of
from worker.engine.tasks.rerank.yes_no_prompt import BODY, YesNoPrompt
from worker.models.contents.present_files import kind_of
from worker.models.model_folder import ModelFolder
from worker.models.model_kind import ModelKind
from worker.models.registry import find_model
from worker.text.segments import segment
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer

SHOWN_REJECTED = 20
_USED_IDS = "CREATE TABLE used (id TEXT PRIMARY KEY, position INTEGER, line INTEGER) WITHOUT ROWID"


@dataclass(slots=True)
class _Texts:
    """The texts of a corpus, counted while they are iterated over."""

    corpus: Corpus
    spec: JobSpec
    stages: Sequence[Stage]
    max_shard_tokens: int
    spool: Path
    reporter: ProgressReporter
    num_documents: int = 0
    num_without_id: int = 0
    estimated_tokens: int = 0
    num_rejected: int = 0
    num_shards: int = 0
    rejected: list[Rejected] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        with (
            open_corpus(self.corpus, self.spool, self.reporter.saw_bytes) as (contents, reading),
            scratch_tables(self.spool, _USED_IDS, "the ids") as tables,
        ):
            reading = with_changes(reading, self.corpus, self.spec)
            self.reporter.begin(reading, contents)
            used = _UsedIds(tables)
            _, records = resolve_fields(self.stages, check_records(self.corpus, reading))
            for batch in cut_batches(records, self.max_shard_tokens):
                repeated = used.take([record for shard in batch.shards for record in shard])
                for shard in batch.shards:
                    yield from self._take(shard, repeated, reading.line_name)
                self.reporter.report(None, self.num_documents, self.num_rejected)

    def _take(self, shard: Sequence[Record], repeated: Mapping[int, int], line_name: LineName) -> Iterator[str]:
        """The texts of a shard; `repeated`: by position of a line with the id of an earlier line, that line."""
        before = self.num_documents
        for record in shard:
            if record.position in repeated:
                record = duplicate(record, repeated[record.position], line_name)
            if isinstance(record, Document):
                self.num_documents += 1
                self.num_without_id += record.unnamed
                self.estimated_tokens += record.estimated_tokens
                yield record.text
                continue
            self.num_rejected += 1
            if len(self.rejected) < SHOWN_REJECTED:
                self.rejected.append(record)
        self.num_shards += self.num_documents > before


def count_work(
    corpus: Corpus,
    spec: JobSpec,
    stages: Sequence[Stage],
    models_dir: Path,
    spool: Path,
    on_progress: OnProgress | None = None,
) -> DryRun:
    """Read the corpus once and count what the first stage reads of it; temporary files go to `spool`. Raises
    CorpusError where it cannot be read, SpecError where a filter among `stages` names a field that it lacks.

    Where onnx does not run the job, the model may have no tokenizer on this machine: then tokens are estimated, as they
    are where models are chosen by the language of each document.
    """
    texts = _Texts(corpus, spec, stages, shard_tokens(spec.task), spool, ProgressReporter(on_progress))
    counts: SegmentCounts | SequenceCounts | None
    try:
        if corpus.language_field is not None:  # each language has a tokenizer of its own
            _read_through(texts)
            return _dry_run(texts, None)
        first = spec.models[0]  # which reads the corpus
        counts = _count(first, find_model(first.model, models_dir), texts)
    except (NotFoundError, ModelError):
        if any(choice.name == ONNX for choice in spec.providers.usable):
            raise
        texts, counts = _Texts(corpus, spec, stages, texts.max_shard_tokens, spool, texts.reporter), None
        _read_through(texts)
    return _dry_run(texts, counts)


def _read_through(texts: _Texts) -> None:
    """Read a corpus whose documents are counted while they are read."""
    for _text in texts:
        pass


def _dry_run(texts: _Texts, counts: SegmentCounts | SequenceCounts | None) -> DryRun:
    return DryRun(
        counts=counts,
        num_documents=texts.num_documents,
        estimated_tokens=texts.estimated_tokens,
        num_rejected=texts.num_rejected,
        rejected=tuple(texts.rejected),
        num_shards=texts.num_shards,
        num_without_id=texts.num_without_id,
    )


def _count(spec: JobSpec, folder: ModelFolder, texts: _Texts) -> SegmentCounts | SequenceCounts:
    """Count with the tokenizer of a folder. Raises ModelError where it has none, or none for such documents."""
    kind = kind_of(folder)
    if kind is ModelKind.CROSS_ENCODER:
        return _pairs(folder.path, texts)
    if kind is not ModelKind.CAUSAL:
        if not isinstance(spec.options, TranslateOptions) and spec.payload_kind is not PayloadKind.PAIRS:
            raise ModelError(f"{folder.name} is {ModelKind.TRANSLATION.noun}, which reads neither texts nor queries")
        return _translation(folder.path, spec.options, texts)
    model = open_causal_model(folder.path, vocab_only=True)
    tokenizer = open_causal_tokenizer(folder.path, model)
    if isinstance(spec.options, GenerateOptions):
        continuer = PromptContinuer(model, tokenizer, open_chat_tokenizer(folder.path, tokenizer))
        return _count_sequences((continuer.prompt_length(text, spec.options) for text in texts), model.max_positions)
    if isinstance(spec.options, RerankOptions) and spec.options.method is Method.YES_NO:
        prompt = YesNoPrompt(tokenizer, spec.options.template or BODY, model.max_positions)
        return _count_sequences((len(ids) for ids in _prompts(prompt, texts)), model.max_positions)
    lengths_of = _sequence_lengths(spec.options, lambda text: len(tokenizer.encode(text).ids))
    return _count_sequences((length for text in texts for length in lengths_of(text)), model.max_positions)


def _translation(folder: Path, options: Options, texts: _Texts) -> SegmentCounts | SequenceCounts:
    """Segments to translate, or the two sides of pairs to score."""
    tokenizer, max_positions = open_translation_tokenizer(folder), open_seq2seq_model(folder).max_positions
    if isinstance(options, TranslateOptions | ScoreOptions):
        tokenizer = tokenizer.for_source(options.source_language)
    if isinstance(options, TranslateOptions):
        return count_segments(
            texts,
            tokenizer,
            source_language=options.source_language,
            target_language=options.target_language,
            max_tokens=max_positions,
            unit=options.segment,
        )
    pairs = (orjson.loads(text) for text in texts)
    language = options.target_language if isinstance(options, ScoreOptions) else None
    sides = (
        length
        for pair in pairs
        for length in (len(tokenizer.encode(pair["source"], language)), len(tokenizer.cut_target(pair["target"])) + 1)
    )
    return _count_sequences(sides, max_positions)


def _pairs(folder: Path, texts: _Texts) -> SequenceCounts:
    """Candidates with their queries, as a cross-encoder reads them."""
    model = CrossEncoder.open(folder)
    reader = open_pair_reader(folder, model)
    queries = (orjson.loads(text) for text in texts)
    lengths = (
        len(reader.tokenizer.encode(query["query"]))
        + len(reader.tokenizer.encode(candidate["text"] or ""))
        + reader.tokenizer.template.num_special
        for query in queries
        for candidate in query["candidates"]
    )
    return _count_sequences(lengths, reader.max_length)


def _prompts(prompt: YesNoPrompt, texts: Iterable[str]) -> Iterator[Sequence[int]]:
    """The whole prompt of each candidate."""
    for query in map(orjson.loads, texts):
        for candidate in query["candidates"]:
            yield prompt.whole(query["query"], candidate["text"] or "")


def _sequence_lengths(options: Options, count: Callable[[str], int]) -> Callable[[str], Iterator[int]]:
    """A function that gives the lengths of a document's sequences in ids: one, or one for each candidate of a query."""
    if not isinstance(options, RerankOptions):
        return lambda text: iter((count(text),))
    template = template_of(options)

    def lengths_of(text: str) -> Iterator[int]:
        query = orjson.loads(text)
        for candidate in query["candidates"]:
            prompt, scored = template.split(query["query"], candidate["text"] or "")
            yield count(prompt) + count(scored)

    return lengths_of


class _UsedIds:
    """The ids so far, each with the position and line that had it first, in a table on disk, of which 64 MB are cached.
    (A submit finds duplicates in the database.)"""

    def __init__(self, tables: sqlite3.Connection) -> None:
        self._tables = tables

    def take(self, records: Sequence[Record]) -> Mapping[int, int]:
        """Add the next records; the positions of those whose id was used before, with the line that used it."""
        rows = [(record.external_id, record.position, record.line) for record in records if record.external_id]
        before = self._tables.total_changes
        self._tables.executemany("INSERT OR IGNORE INTO used VALUES (?, ?, ?)", rows)
        if self._tables.total_changes - before == len(rows):
            return {}
        first = "SELECT position, line FROM used WHERE id = ?"
        found = ((position, *self._tables.execute(first, (used,)).fetchone()) for used, position, _ in rows)
        return {position: line for position, first_position, line in found if first_position != position}


def _count_sequences(lengths: Iterable[int], max_tokens: int) -> SequenceCounts:
    """`lengths` are the numbers of ids of the sequences, `max_tokens` is the number of positions of the model."""
    num_longer = num_tokens = longest = 0
    buckets: Counter[int] = Counter()
    for length in lengths:
        num_longer += length > max_tokens
        num_tokens += length
        longest = max(longest, length)
        buckets[1 << max(0, length - 1).bit_length()] += 1
    return SequenceCounts(
        num_sequences=buckets.total(),
        num_longer=num_longer,
        num_tokens=num_tokens,
        longest=longest,
        histogram=tuple(LengthBucket(size, buckets[size]) for size in sorted(buckets)),
    )


def count_segments(
    texts: Iterable[str],
    tokenizer: Seq2SeqTokenizer,
    *,
    source_language: str,
    target_language: str | None,
    max_tokens: int,
    unit: Segmentation = Segmentation.SENTENCES,
) -> SegmentCounts:
    """Count what a job over `texts` would translate, without keeping any text.

    `max_tokens` is the number of positions of the model.
    """
    num_documents = num_empty = num_passed_through = num_split = num_tokens = longest = 0
    buckets: Counter[int] = Counter()
    for text in texts:
        num_documents += 1
        is_empty = True
        for span in segment(text, source_language, unit):
            num_passed_through += span.letterless
            if not span.translatable:
                continue
            is_empty = False
            length = len(tokenizer.encode(span.text, target_language))
            num_tokens += length
            num_split += length > max_tokens
            longest = max(longest, length)
            buckets[1 << (length - 1).bit_length()] += 1
        num_empty += is_empty
    return SegmentCounts(
        num_documents=num_documents,
        num_empty=num_empty,
        num_segments=buckets.total(),
        num_passed_through=num_passed_through,
        num_split=num_split,
        num_tokens=num_tokens,
        longest=longest,
        histogram=tuple(LengthBucket(size, buckets[size]) for size in sorted(buckets)),
    )

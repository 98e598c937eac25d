"""
The seq2seq part of `verify`: translations, compared by their ids.

    slots       of native graphs: segments together, in slots that are refilled    against each segment alone
    cache       of exports: with the cache                                         against the whole prefix at each step
    checkpoint  each step of a greedy search                                       against the checkpoint, same prefix

Shapes: T target length · V vocabulary.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from jobs.tasks.shared_options import CachePolicy, Timing
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.seq2seq.protocol import Seq2SeqModel, decode_all
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.graphs import write_seq2seq
from worker.model_tools.sample import read_segments
from worker.model_tools.translation_scores import ScoredTranslation, can_score, score_translations
from worker.model_tools.verify.checks import Verdict, VerifyCheck, token_figures
from worker.model_tools.verify.numpy_parts import Floats
from worker.model_tools.verify.protocol import Sample
from worker.model_tools.verify.references import open_seq2seq_reference
from worker.model_tools.verify.vocabulary import check_same_files
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.file_names import M2M100_TOKENIZER, MARIAN_TOKENIZER, T5_TOKENIZER
from worker.models.json_file import read_json
from worker.models.layout.seq2seq_config import Seq2SeqConfig
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder, read_manifest
from worker.text.translation.sentence_pieces import TargetBeginning
from worker.text.translation.translation_tokenizer import open_translation_tokenizer

_TOLERANCE = 1e-3  # nats: float32 sums in another order differ by less, and so may the best of two equal tokens
_SLOTS = 8  # few, so that they are refilled
_MAX_UNCACHED = 16  # segments that run alone, or go through the reference, which has no cache
_EXTRA_TOKENS = 8  # a translation may be twice as long as its source, and so many tokens longer
_MAX_TOKENS = 128  # and no longer: a random model never ends, and an error shows long before
_MAX_POSITIONS = 512  # of a segment, where config.json does not name the model's positions

DecodeText = Callable[[Sequence[int]], str]


class VerifiedSeq2Seq:
    """The family of translation models (`VerifiedFamily`)."""

    unit = "segment"
    no_checkpoint = "the model was not made by kvjobs models add; compare it with another one by --against"

    @staticmethod
    def check_same_vocabulary(folder: ModelFolder, other: ModelFolder) -> None:
        check_same_files(folder, other, (*MARIAN_TOKENIZER, *M2M100_TOKENIZER, *T5_TOKENIZER))

    def __init__(self, *, source_language: str = "en", target_language: str | None = None) -> None:
        """`source_language`: of the sample, for cutting sentences; `target_language`: of a multilingual model."""
        self._source_language = source_language
        self._target_language = target_language

    def read_sample(self, folder: ModelFolder, corpus: str | None, limit: int) -> Sample:
        """Sentences; raises SpecError for a target language that the model does not have, too."""
        tokenizer = open_translation_tokenizer(folder.path)
        tokenizer.check_language(self._target_language)
        return read_segments(
            corpus,
            tokenizer,
            source_language=self._source_language,
            target_language=self._target_language,
            max_tokens=Seq2SeqConfig.of(read_json(folder.path / "config.json")).max_positions or _MAX_POSITIONS,
            limit=limit,
        )

    def run(self, folder: ModelFolder, sample: Sample) -> "Seq2SeqRun":
        tokenizer = open_translation_tokenizer(folder.path)
        beginning = tokenizer.beginning(self._target_language)
        return Seq2SeqRun(open_seq2seq_model(folder.path), read_manifest(folder), sample, tokenizer.decode, beginning)

    def export_checkpoint(self, folder: ModelFolder, manifest: Manifest | None) -> Path | None:
        """Always None: exports of translation models are compared only with other models."""
        return None

    def write_fp32(self, folder: Path, checkpoint: Checkpoint) -> None:
        write_seq2seq(folder, checkpoint.config, checkpoint.weights, precision=Precision.FP32, head_ids=None)


class Seq2SeqRun:
    """A translation model and its greedy translations of a sample."""

    def __init__(
        self,
        model: Seq2SeqModel,
        manifest: Manifest | None,
        sample: Sample,
        decode_text: DecodeText,
        beginning: TargetBeginning,
    ) -> None:
        """`beginning`: of every translation."""
        self._is_native = manifest is not None and manifest.is_native
        self.is_exact = manifest is not None and manifest.precision == Precision.FP32
        self._model = model
        self._sample = sample
        self._decode_text = decode_text
        self._beginning = beginning
        self._head_ids = manifest.head_ids if manifest else None
        self._greedy = _greedy(model.generation, sample)
        self._translations = _decode(model, sample, self._greedy, batch_size=_SLOTS)

    def self_checks(self) -> Iterator[VerifyCheck]:
        """`slots` of native graphs, `cache` of exports that have one."""
        if self._is_native:
            few = self._sample[:_MAX_UNCACHED]
            alone = [found for ids in few for found in _decode(self._model, [ids], self._greedy, batch_size=1)]
            yield _compare("slots", "each segment alone", self._translations[: len(few)], alone)
        elif self._model.has_cache:
            uncached = _decode(self._model, self._sample, self._greedy, cache=CachePolicy("off"))
            yield _compare("cache", "without it", self._translations, uncached)

    def check_checkpoint(self, checkpoint: Path) -> VerifyCheck:
        """Whether the reference, given the same prefix, chooses each token that the model chose."""
        reference = open_seq2seq_reference(checkpoint)
        num_tokens = num_same = num_exact = 0
        worst_gap = drift = 0.0
        compared = list(zip(self._sample, self._translations, strict=True))[:_MAX_UNCACHED]
        for source, translation in compared:
            ids = list(translation.ids)
            log_probs = self._log_softmax(reference.logits(source, [self._greedy.start_id, *ids[:-1]]))  # (T, V)
            steps = np.arange(len(ids))
            drift += abs(float(log_probs[steps, ids].sum()) - translation.log_prob)
            log_probs[:, list(self._greedy.suppressed_ids)] = -np.inf
            best = log_probs.argmax(axis=1)
            same = best == ids
            worst_gap = max(worst_gap, float((log_probs[steps, best] - log_probs[steps, ids]).max(initial=0.0)))
            num_tokens += len(ids)
            num_same += int(same.sum())
            num_exact += bool(same.all())
        drift /= max(1, num_tokens)
        if not math.isfinite(drift) or (self.is_exact and max(worst_gap, drift) > _TOLERANCE):
            verdict = Verdict.DIFFERS
        elif not self.is_exact:
            verdict = Verdict.MEASURED
        else:
            verdict = Verdict.SAME if num_same == num_tokens else Verdict.TIED
        return VerifyCheck(
            name="checkpoint",
            against=reference.name,
            verdict=verdict,
            num_segments=len(compared),
            exact=_share(num_exact, len(compared)),
            tokens=_share(num_same, num_tokens),
            drift=drift,
        )

    def compare(self, name: str, against: str, other: Path) -> VerifyCheck:
        """Compare translations under the model's own search settings, with chrF; and where both graphs are native, the
        log-probabilities that both give the tokens of the other's."""
        model = open_seq2seq_model(other)
        theirs = _decode(model, self._sample, self._search)
        check = _compare(name, against, self._searched, theirs, decode_text=self._decode_text)
        manifest = read_manifest(ModelFolder(against, other))
        is_native = self._is_native and manifest is not None and manifest.is_native
        return self._with_scores(check, model, theirs) if is_native else check

    def _with_scores(self, check: VerifyCheck, other: Seq2SeqModel, theirs: Sequence[Hypothesis]) -> VerifyCheck:
        num_given = int(self._search.forced_bos_id is not None)
        found = can_score(
            self._model,
            [
                ScoredTranslation(IdPair(source, translation.ids, self._search.start_id), num_given)
                for source, translation in zip(self._sample, theirs, strict=True)
                if len(translation.ids) > num_given
            ],
        )
        if not found:
            return check
        ours, exact = (score_translations(model, found) for model in (self._model, other))
        return dataclasses.replace(check, **token_figures(ours, exact))

    @cached_property
    def _search(self) -> GenerationConfig:
        return _bounded(self._model.generation, self._sample).with_beginning(
            self._beginning.start_id, self._beginning.forced_id
        )

    @cached_property
    def _searched(self) -> list[Hypothesis]:
        return _decode(self._model, self._sample, self._search)

    def _log_softmax(self, logits: Floats) -> Floats:
        """Log-probabilities over the ids that the model's head keeps, in place of `logits`."""
        if self._head_ids is not None:
            kept = np.full(logits.shape[1], -np.inf, np.float32)
            kept[list(self._head_ids)] = 0.0
            logits += kept
        logits -= logits.max(axis=1, keepdims=True)
        log_probs: Floats = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return log_probs


def _compare(
    name: str,
    against: str,
    ours: Sequence[Hypothesis],
    theirs: Sequence[Hypothesis],
    *,
    decode_text: DecodeText | None = None,
) -> VerifyCheck:
    """Compare ids position by position. With `decode_text` nothing has to be equal, and texts are compared as well."""
    pairs = list(zip(ours, theirs, strict=True))
    num_same = sum(our.ids == their.ids for our, their in pairs)
    same_ids = [a == b for our, their in pairs for a, b in zip(*_padded(our.ids, their.ids), strict=True)]
    drifts = [
        abs(our.log_prob / max(1, len(our.ids)) - their.log_prob / max(1, len(their.ids))) for our, their in pairs
    ]
    drift = math.fsum(drifts) / max(1, len(drifts))
    is_wrong = not math.isfinite(drift) or (decode_text is None and num_same < len(ours))
    return VerifyCheck(
        name=name,
        against=against,
        verdict=Verdict.DIFFERS if is_wrong else Verdict.MEASURED if decode_text else Verdict.SAME,
        num_segments=len(ours),
        exact=_share(num_same, len(ours)),
        tokens=_share(sum(same_ids), len(same_ids)),
        chrf=_chrf([decode_text(our.ids) for our in ours], [decode_text(their.ids) for their in theirs])
        if decode_text
        else None,
        drift=drift,
    )


def _padded(ours: Sequence[int], theirs: Sequence[int]) -> tuple[list[int], list[int]]:
    """Both sequences of ids at the same length: the shorter is filled up with values that equal no id."""
    longest = max(len(ours), len(theirs))
    return [*ours, *[-1] * (longest - len(ours))], [*theirs, *[-2] * (longest - len(theirs))]


def _chrf(ours: Sequence[str], theirs: Sequence[str]) -> float | None:
    """The chrF of all texts together; None if sacrebleu is not installed."""
    if not find_spec("sacrebleu"):
        return None
    import sacrebleu

    return float(sacrebleu.corpus_chrf(list(ours), [list(theirs)]).score)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _greedy(rules: GenerationConfig, sample: Sample) -> GenerationConfig:
    """Greedy search without any rule that forces or forbids a token because of earlier ones: a reference that sees one
    step at a time can follow it."""
    return dataclasses.replace(
        _bounded(rules, sample),
        num_beams=1,
        min_new_tokens=0,
        forced_bos_id=None,
        forced_eos_id=None,
        begin_suppressed_ids=(),
        bad_sequences=(),
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        renormalize_logits=False,
    )


def _bounded(rules: GenerationConfig, sample: Sample) -> GenerationConfig:
    """The model's own settings, with an earlier end for translations that never end."""
    longest = max(map(len, sample), default=0)
    max_new_tokens = min(rules.max_new_tokens, 2 * longest + _EXTRA_TOKENS, _MAX_TOKENS)
    return dataclasses.replace(rules, max_new_tokens=max_new_tokens)


def _decode(
    model: Seq2SeqModel,
    sample: Sample,
    rules: GenerationConfig,
    *,
    batch_size: int = 32,
    cache: CachePolicy = CachePolicy(),  # noqa: B008 - frozen
) -> list[Hypothesis]:
    """The best hypothesis of each segment, in order."""
    run = RunContext(Stopwatch(Timing.OFF))
    found = decode_all(model.new_decoder(cache), sample, rules, run, batch_size=batch_size)
    return [best for best, *_ in found]

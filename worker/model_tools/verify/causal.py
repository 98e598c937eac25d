"""
The causal part of `verify`: documents, compared by the log-probability of each token.

    packed      documents many in one row, long ones in pieces    against each of them alone and whole
    cache       documents whose prefix is computed once           against each of them alone and whole
    checkpoint  documents                                         against the checkpoint

In fp32 these have to hold for each token. In int8 and fp16 a last bit may decide how a number is rounded, so `packed`
and `cache` have to hold on the mean, and `checkpoint` measures.

Some documents are put together to be as long as each limit that the configuration names, and longer: that is where
exports turn out to be made for short texts.

Shapes: T length.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, cycle, islice
from pathlib import Path

import numpy as np

from jobs.errors import ModelError
from jobs.tasks.shared_options import Timing
from worker.engine.causal.open import open_causal_model, open_causal_tokenizer
from worker.engine.causal.protocol import CausalModel, Group, LogProbs, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.graphs.causal.graphs import write_causal
from worker.graphs.precision import Precision
from worker.model_tools.sample import read_documents
from worker.model_tools.verify.checks import Verdict, VerifyCheck, token_figures
from worker.model_tools.verify.protocol import Sample
from worker.model_tools.verify.references import open_causal_reference
from worker.model_tools.verify.vocabulary import check_same_ids
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.contents.present_files import has_weights
from worker.models.departures.attention_evidence import EXACT_IN_BFLOAT16
from worker.models.file_names import CAUSAL_TOKENIZER
from worker.models.layout.causal_config import CausalConfig
from worker.models.manifest import Manifest, is_gguf
from worker.models.model_folder import ModelFolder

_MAX_UNCACHED = 16  # documents that are read alone, or by the reference, which has no cache
_MAX_LENGTH = 8192  # tokens of a document that goes past a limit
_MARGIN = 64  # tokens by which that document goes past the limit
_MAX_BYTES = 1 << 30  # the largest logits of a document that is read in one call
_JOINED_LENGTH = 1024  # tokens of a document joined from all others, long enough to be read in several pieces

# The limits that a configuration names: text lengths beyond which a model may compute differently.
_NUM_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "context_length", "seq_length")
_ORIGINAL = "original_max_position_embeddings"  # where rotary scaling may begin
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")  # how many tokens a token attends to


class VerifiedCausal:
    """Causal language models."""

    unit = "document"
    no_checkpoint = (
        "the model was not made by kvjobs models add; name the checkpoint that it was exported from by --checkpoint, "
        "or compare it with another model by --against"
    )

    def check_same_vocabulary(self, folder: ModelFolder, other: ModelFolder) -> None:
        check_same_ids(folder, other, CAUSAL_TOKENIZER)

    def read_sample(self, folder: ModelFolder, corpus: str | None, limit: int) -> Sample:
        """Documents of two tokens or more, BOS included where the model has one."""
        return read_documents(corpus, open_causal_tokenizer(folder.path), limit=limit)

    def run(self, folder: ModelFolder, sample: Sample) -> "CausalRun":
        """Documents that are longer than the model's positions are cut."""
        model = open_causal_model(folder.path)
        joined = _joined(sample, model)
        past_limits, untried = _past_limits(sample, model, CausalConfig.read(folder.path))
        past_limits = [ids for ids in past_limits if len(ids) != len(joined)]
        documents = [*past_limits, joined, *_cut(sample, model)]
        num_compared = max(_MAX_UNCACHED, len(past_limits) + 1)
        theirs = _OF_LLAMA_CPP if is_gguf(folder.path) else _EACH_TOKEN
        return CausalRun(model, documents, num_compared=num_compared, untried=untried, of_reference=theirs)

    def export_checkpoint(self, folder: ModelFolder, manifest: Manifest | None) -> Path | None:
        """The checkpoint that the export was compared with when it was added, else weights beside the export."""
        named = Path(manifest.checkpoint) if manifest and manifest.checkpoint else folder.path
        return named if has_weights(named) else None

    def write_fp32(self, folder: Path, checkpoint: Checkpoint) -> None:
        write_causal(folder, checkpoint.config, checkpoint.weights, precision=Precision.FP32)


def check_sample(folder: ModelFolder, sample: Sample, checkpoint: Path) -> VerifyCheck:
    """Compare an export with its checkpoint, on the sample and on documents of up to 1,024 tokens past its limits."""
    model = open_causal_model(folder.path)
    past_limits, _ = _past_limits(sample, model, CausalConfig.read(folder.path), _JOINED_LENGTH)
    documents = [*past_limits, *_cut(sample, model)]
    return CausalRun(model, documents, num_compared=len(documents)).check_checkpoint(checkpoint)


def score_documents(model: CausalModel, documents: Sample) -> list[LogProbs]:
    """The log-probability of each token of each document, as far as the model reads it at once."""
    return _read(model, _cut(documents, model))


class CausalRun:
    """A causal model and its log-probabilities of documents."""

    def __init__(
        self,
        model: CausalModel,
        documents: Sample,
        *,
        num_compared: int,
        untried: str | None = None,
        of_reference: "_Tolerance | None" = None,
    ) -> None:
        """`num_compared`: of the documents, those that are compared with a slow way to read them; `untried`: a note on
        limits that no document reaches; `of_reference`: how far a model in float32 may be from its checkpoint."""
        self._of_reference = of_reference or _EACH_TOKEN
        self.is_exact = model.computes_in_float32()
        self._model = model
        self._documents = documents
        self._few = documents[:num_compared]
        self._untried = untried
        self._log_probs = _read(model, documents)

    def self_checks(self) -> Iterator[VerifyCheck]:
        """`packed`, then `cache`."""
        tolerance = _EACH_TOKEN if self.is_exact else _MEAN
        alone = _read_alone(self._model, self._few)
        packed = _compare("packed", "each document alone", self._log_probs[: len(self._few)], alone, tolerance)
        yield dataclasses.replace(packed, note=self._untried)
        yield _compare("cache", "each document whole", *_read_behind_prefixes(self._model, self._few), tolerance)

    def check_checkpoint(self, checkpoint: Path) -> VerifyCheck:
        """The check against the checkpoint; left out if the reference does not know its architecture."""
        try:
            reference = open_causal_reference(checkpoint)
        except ModelError as error:
            return VerifyCheck(name="checkpoint", against=str(checkpoint), verdict=Verdict.LEFT_OUT, note=str(error))
        tolerance = self._of_reference if self.is_exact else None
        try:
            theirs = reference.log_probs(self._few)
        except ModelError as error:  # weights of a type that cannot be read here
            return VerifyCheck(name="checkpoint", against=str(checkpoint), verdict=Verdict.LEFT_OUT, note=str(error))
        return _compare("checkpoint", reference.name, self._log_probs[: len(self._few)], theirs, tolerance)

    def compare(self, name: str, against: str, other: Path) -> VerifyCheck:
        """Compare all documents, each cut to the positions that both models have."""
        theirs = open_causal_model(other)
        common = _cut(self._documents, theirs)
        ours = self._log_probs if common == self._documents else _read(self._model, common)
        return _compare(name, against, ours, _read(theirs, common))


def _joined(sample: Sample, model: CausalModel) -> list[int]:
    """One long document: all documents of the sample, joined."""
    return list(islice(chain.from_iterable(sample), min(model.max_positions, _JOINED_LENGTH)))


def _past_limits(
    sample: Sample, model: CausalModel, config: CausalConfig, max_length: int | None = None
) -> tuple[list[list[int]], str | None]:
    """Documents as long as each limit that the configuration names, and longer; a note on limits that are too far."""
    max_length = min(max_length or _MAX_LENGTH, _MAX_BYTES // (4 * model.vocab_size))
    limits = {name: limit for name, limit in _named_limits(config).items() if limit <= model.max_positions}
    tried = {name: limit for name, limit in limits.items() if min(limit + _MARGIN, model.max_positions) <= max_length}
    lengths = {min(limit + more, model.max_positions) for limit in tried.values() for more in (0, _MARGIN)}
    tokens = list(chain.from_iterable(sample))
    documents = [list(islice(cycle(tokens), length)) for length in sorted(lengths) if length > 1]
    untried = [f"{name} = {limit:,}" for name, limit in limits.items() if name not in tried]
    note = f"not tried, being longer than {max_length:,} tokens: {', '.join(untried)}" if untried else None
    return documents, note


def _cut(documents: Sample, model: CausalModel) -> list[list[int]]:
    """The beginning of each document, as long as the model can read at once."""
    return [list(ids[: model.max_positions]) for ids in documents]


def _read(model: CausalModel, documents: Sample) -> list[LogProbs]:
    """Log-probabilities of each document, (T - 1,): the first token has no context."""
    return [log_probs for (log_probs,) in _read_groups(model, [Group((), (ids,)) for ids in documents])]


def _read_alone(model: CausalModel, documents: Sample) -> list[LogProbs]:
    """Each document by itself, without a cache; in one call where its logits fit into memory."""
    return [_read_groups(model, [Group((), (ids,))], is_alone=True)[0][0] for ids in documents]


def _read_behind_prefixes(model: CausalModel, documents: Sample) -> tuple[list[LogProbs], list[LogProbs]]:
    """The second half of each document and of the next one, both behind its first half: with the prefix computed once,
    and each alone."""
    groups = []
    for ids, following in zip(documents, [*documents[1:], documents[0]], strict=True):
        middle = (len(ids) + 1) // 2
        another = following[len(following) // 2 :][: model.max_positions - middle]
        groups.append(Group(ids[:middle], [suffix for suffix in (ids[middle:], another) if suffix]))
    shared = [log_probs for group in _read_groups(model, groups) for log_probs in group]
    whole = [([*group.prefix, *suffix], len(suffix)) for group in groups for suffix in group.suffixes]
    alone = _read_alone(model, [ids for ids, _ in whole])
    return shared, [log_probs[-num_scored:] for log_probs, (_, num_scored) in zip(alone, whole, strict=True)]


def _read_groups(model: CausalModel, groups: Sequence[Group], *, is_alone: bool = False) -> list[list[LogProbs]]:
    is_short = max((group.longest for group in groups), default=0) <= _MAX_BYTES // (4 * model.vocab_size)
    reader = model.new_whole_reader() if is_alone and is_short else model.new_reader(is_packed=not is_alone)
    return read_all(reader, groups, RunContext(Stopwatch(Timing.OFF)))


@dataclasses.dataclass(frozen=True, slots=True)
class _Tolerance:
    """How far log-probabilities may differ, in nats a token."""

    worst: float = np.inf
    mean: float = np.inf

    def allows(self, *, worst: float, drift: float, **_: float) -> bool:
        return worst <= self.worst and drift <= self.mean


_EACH_TOKEN = _Tolerance(worst=1e-4)  # float32 sums in another order differ by less
_OF_LLAMA_CPP = _Tolerance(worst=1e-3)  # its exponentials are approximations: up to 1.4e-4 was seen, in float32
_MEAN = _Tolerance(mean=1e-2)  # of int8 and fp16: a model that reads another token is off by far more


def _compare(
    name: str,
    against: str,
    ours: Sequence[LogProbs],
    theirs: Sequence[LogProbs],
    tolerance: _Tolerance | None = None,
) -> VerifyCheck:
    """Log-probabilities of the same tokens. Without a `tolerance` nothing has to be equal."""
    figures = token_figures(ours, theirs)
    if not np.isfinite(figures["worst"]) or (tolerance is not None and not tolerance.allows(**figures)):
        verdict = Verdict.DIFFERS
    else:
        holds_each = tolerance is not None and tolerance.worst < np.inf
        verdict = Verdict.SAME if holds_each else Verdict.MEASURED
    return VerifyCheck(name=name, against=against, verdict=verdict, num_segments=len(ours), **figures)


def _named_limits(config: CausalConfig) -> dict[str, int]:
    """Number of tokens by the name of each limit, the shortest first."""
    settings = config.content
    found = {name: settings.get(name) for name in (*_NUM_POSITIONS, _ORIGINAL, *_WINDOWS)}
    for scaling in (settings.get("rope_scaling"), settings.get("rope_parameters")):
        if isinstance(scaling, Mapping):
            found[_ORIGINAL] = found[_ORIGINAL] or scaling.get(_ORIGINAL)
    if settings.get("alibi") and settings.get("model_type") == "falcon":
        found["alibi"] = EXACT_IN_BFLOAT16 + 1  # where bfloat16 begins to round it
    limits = {name: value for name, value in found.items() if type(value) is int and value > 0}
    return dict(sorted(limits.items(), key=lambda limit: limit[1]))

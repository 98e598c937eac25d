"""
The part of `verify` for cross-encoders: pairs of texts, compared by their logits.

    packed      pairs many in one call      against each of them alone
    checkpoint  pairs                       against the checkpoint

In fp32 both have to hold for each pair. In int8 and fp16 a last bit may decide how a number is rounded, so `packed` has
to hold on the mean, and `checkpoint` measures.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from jobs.errors import ModelError
from jobs.tasks.shared_options import Timing
from worker.engine.cross_encoder.model import CrossEncoder, PairIds, score_all
from worker.engine.cross_encoder.pair_reader import PairReader, open_pair_reader
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.graphs.cross_encoder.graph import write_cross_encoder
from worker.graphs.precision import Precision
from worker.model_tools.sample import TextPair, read_pairs
from worker.model_tools.verify.checks import Verdict, VerifyCheck
from worker.model_tools.verify.references import open_cross_encoder_reference
from worker.model_tools.verify.vocabulary import check_same_files
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.drift import RelevanceDrift
from worker.models.file_names import CAUSAL_TOKENIZER
from worker.models.manifest import Manifest
from worker.models.model_folder import ModelFolder

_MAX_COMPARED = 32  # pairs that are scored alone, or by the reference
_EACH = 1e-3  # of logits in fp32: sums in another order differ by less
_MEAN = 1e-2  # of int8 and fp16, packed against alone


class VerifiedCrossEncoder:
    """Cross-encoders."""

    unit = "pair"
    no_checkpoint = "the model was not made by kvjobs models add"

    def check_same_vocabulary(self, folder: ModelFolder, other: ModelFolder) -> None:
        check_same_files(folder, other, CAUSAL_TOKENIZER)

    def read_sample(self, folder: ModelFolder, corpus: str | None, limit: int) -> Sequence[TextPair]:
        """Queries with their candidates; without a corpus, beginnings of weather bulletins with bulletins."""
        return read_pairs(corpus, limit=limit)

    def run(self, folder: ModelFolder, sample: Sequence[TextPair]) -> "CrossEncoderRun":
        """Pairs that are too long are cut, as in a job. The last one fills the model's positions."""
        model = CrossEncoder.open(folder.path)
        pairs = _pairs(sample, open_pair_reader(folder.path, model), model)
        return CrossEncoderRun(model, pairs, [*(query for query, _ in sample), sample[0][0]])

    def export_checkpoint(self, folder: ModelFolder, manifest: Manifest | None) -> Path | None:
        """Always None: exports of cross-encoders are not run."""
        return None

    def write_fp32(self, folder: Path, checkpoint: Checkpoint) -> None:
        write_cross_encoder(folder, checkpoint.config, checkpoint.weights, precision=Precision.FP32)


class CrossEncoderRun:
    """A cross-encoder and its logits of pairs."""

    def __init__(self, model: CrossEncoder, pairs: Sequence[PairIds], queries: Sequence[str]) -> None:
        """`queries`: of each pair."""
        self.is_exact = model.computes_in_float32()
        self._model = model
        self._pairs = pairs
        self._queries = queries
        # Every n-th pair by length is compared, beginning with the longest.
        by_length = sorted(range(len(pairs)), key=lambda index: -len(pairs[index].ids))
        self._few = by_length[:: -(-len(pairs) // _MAX_COMPARED)]
        self._logits = _score(model, pairs)

    def self_checks(self) -> Iterator[VerifyCheck]:
        """`packed`."""
        alone = _score(self._model, [self._pairs[index] for index in self._few], is_packed=False)
        ours = [self._logits[index] for index in self._few]
        yield _compare("packed", "each pair alone", ours, alone, worst=_EACH if self.is_exact else None, mean=_MEAN)

    def check_checkpoint(self, checkpoint: Path) -> VerifyCheck:
        """The check against the checkpoint."""
        try:
            reference = open_cross_encoder_reference(checkpoint)
            theirs = [reference.logit(self._pairs[index].ids, self._pairs[index].types) for index in self._few]
        except ModelError as error:
            return VerifyCheck(name="checkpoint", against=str(checkpoint), verdict=Verdict.LEFT_OUT, note=str(error))
        ours = [self._logits[index] for index in self._few]
        return _compare("checkpoint", reference.name, ours, theirs, worst=_EACH if self.is_exact else None)

    def compare(self, name: str, against: str, other: Path) -> VerifyCheck:
        """Compare all pairs that both models can read."""
        theirs = CrossEncoder.open(other)
        common = [index for index, pair in enumerate(self._pairs) if len(pair.ids) <= theirs.max_positions]
        ours = [self._logits[index] for index in common]
        found = _score(theirs, [self._pairs[index] for index in common])
        check = _compare(name, against, ours, found)
        by_query: dict[str, tuple[list[float], list[float]]] = {}
        for index, *logits in zip(common, ours, found, strict=True):
            for side, logit in zip(by_query.setdefault(self._queries[index], ([], [])), logits, strict=True):
                side.append(logit)
        with suppress(ModelError):  # the verdict says it
            check = replace(check, relevance=RelevanceDrift.between(*zip(*by_query.values(), strict=True)))
        return check


def _pairs(sample: Sequence[TextPair], reader: PairReader, model: CrossEncoder) -> list[PairIds]:
    """The sample as ids, and one pair of all its documents."""
    tokenizer = reader.tokenizer
    texts = [(tokenizer.encode(query), tokenizer.encode(document)) for query, document in sample]
    joined = tuple(token for _, document in texts for token in document)
    found = [tokenizer.join(query, document, reader.max_length) for query, document in texts]
    found.append(tokenizer.join(texts[0][0], joined, reader.max_length))
    return [PairIds(pair.ids, pair.types) for pair in found]


def _score(model: CrossEncoder, pairs: Sequence[PairIds], *, is_packed: bool = True) -> list[float]:
    return score_all(model.new_scorer(is_packed=is_packed), pairs, RunContext(Stopwatch(Timing.OFF)))


def _compare(
    name: str,
    against: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    worst: float | None = None,
    mean: float = np.inf,
) -> VerifyCheck:
    """Logits of the same pairs. `worst`: how far a single one may be off; None: only the mean is bounded, by `mean`."""
    gaps = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64))
    is_off = not np.isfinite(gaps).all() or gaps.mean() > mean or (worst is not None and gaps.max() > worst)
    verdict = Verdict.SAME if worst is not None else Verdict.MEASURED
    return VerifyCheck(
        name=name,
        against=against,
        verdict=Verdict.DIFFERS if is_off else verdict,
        num_segments=len(ours),
        drift=float(gaps.mean()),
        worst=float(gaps.max()),
    )

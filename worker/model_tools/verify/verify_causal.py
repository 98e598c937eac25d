"""
Whether a causal language model says what it should: `kvjobs models verify`, by the log-probability of each token.

    packed      documents many in one row, long ones in pieces  against each of them alone and whole
    cache       documents whose beginning is computed once      against each of them whole, alone
    checkpoint  documents                                       against the checkpoint itself
    precision   documents in int8 or fp16                       against graphs in fp32 of the same checkpoint
    model       documents                                       against another model

In fp32 the first three have to hold for each token: a model that fails one is wrong. In int8 and fp16 a last bit may
decide how a number is rounded, so the first two have to hold on the mean. The others measure what that costs.

Some of the documents are put together to be as long as each limit that the configuration names, and longer: that is
where exports turn out to be made for short texts.

Knows: models, documents as ids. Does not know: how to print.

Shapes: T length.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobs.errors import ModelError, SpecError
from jobs.spec import Timing
from worker.engine.causal.open import open_language_model
from worker.engine.causal.protocol import CausalModel, Group, LogProbs
from worker.engine.runtime.timing import Stopwatch
from worker.graphs.causal import write_causal
from worker.graphs.precision import Precision
from worker.model_tools.verify.causal_references import open_causal_reference
from worker.model_tools.verify.checks import Check, Verdict
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.departures.named_limits import named_limits
from worker.models.layout.causal_config import CausalConfig
from worker.models.manifest import MANIFEST, Manifest, records
from worker.models.origin import find_checkpoint
from worker.models.registry import CAUSAL_TOKENIZER, CONFIGURATION, ModelFolder, has_weights, read_manifest

_TOLERANCE = 1e-4  # nats, of each token: sums of float32 in another order differ by less
_MEAN_TOLERANCE = 1e-2  # nats a token, of int8 and fp16: a model that reads another token is off by far more
_MOST_SLOW = 16  # documents that run alone, or are judged: a judge has no cache
_LONGEST = 8192  # tokens of a document that goes past a limit
_BEYOND = 64  # tokens that it goes past it
_MOST_BYTES = 1 << 30  # of the logits of a document that is read whole
_LONG = 1024  # tokens of the one document that is put together of all, so that it is read in several parts

Documents = Sequence[Sequence[int]]
Floats = NDArray[np.float64]


def verify_causal(
    folder: ModelFolder, documents: Documents, *, other: ModelFolder | None = None, checkpoint: Path | None = None
) -> Iterator[Check]:
    """Compare the model with itself and with what it was made from, one check after the other.

    `documents` are ids, of two tokens or more each, BOS included where the model has one; what is longer than the
    model's positions is cut. `checkpoint`: of which the graph was exported, where the model is an export. Raises
    ModelError where the model does not run, SpecError where `other` has another tokenizer.
    """
    if other is not None:
        _check_tokenizer(folder, other)
    model = open_language_model(folder.path)
    manifest = read_manifest(folder)
    is_exact = model.computes_in_float32()
    has_to_hold = _holds_for_each if is_exact else _holds_on_the_mean
    together = _together(documents, model)
    past_limits, untried = _past_limits(documents, model, CausalConfig.read(folder.path))
    past_limits = [ids for ids in past_limits if len(ids) != len(together)]
    documents = [*past_limits, together, *_cut(documents, model)]
    ours = _read(model, documents)
    few = documents[: max(_MOST_SLOW, len(past_limits) + 1)]
    packed = _compare("packed", "each document alone", ours[: len(few)], _read_alone(model, few), has_to_hold)
    yield dataclasses.replace(packed, note=untried)
    yield _compare("cache", "each document whole", *_read_parted(model, few), has_to_hold)
    if manifest is not None and manifest.layout == "kv":
        yield from _against_checkpoint(folder, manifest, model, documents, ours)
    else:
        checkpoint = checkpoint or _checkpoint_of(folder, manifest)
        yield _against(checkpoint, few, ours, is_exact) if checkpoint else _without_checkpoint()
    if other is not None:
        theirs = open_language_model(other.path)
        common = _cut(documents, theirs)
        yield _compare("model", other.name, _read(model, common), _read(theirs, common))


def check_sample(folder: ModelFolder, documents: Documents, checkpoint: Path) -> Check:
    """Compare an export with the checkpoint that it was made of, by a few documents and by some past its limits."""
    model = open_language_model(folder.path)
    past_limits, _ = _past_limits(documents, model, CausalConfig.read(folder.path), _LONG)
    few = [*past_limits, *_cut(documents, model)]
    return _against(checkpoint, few, _read(model, few), model.computes_in_float32())


def _past_limits(
    documents: Documents, model: CausalModel, config: CausalConfig, most: int | None = None
) -> tuple[list[list[int]], str | None]:
    """Documents as long as each limit that is named and longer, and what has to be said of limits that are too far."""
    most = min(most or _LONGEST, _MOST_BYTES // (4 * model.vocab_size))
    limits = {name: limit for name, limit in named_limits(config).items() if limit <= model.max_positions}
    tried = {name: limit for name, limit in limits.items() if min(limit + _BEYOND, model.max_positions) <= most}
    lengths = {min(limit + more, model.max_positions) for limit in tried.values() for more in (0, _BEYOND)}
    every = list(chain.from_iterable(documents))
    long = [list(islice(cycle(every), length)) for length in sorted(lengths) if length > 1]
    untried = [f"{name} = {limit:,}" for name, limit in limits.items() if name not in tried]
    return long, f"not tried, being longer than {most:,} tokens: {', '.join(untried)}" if untried else None


def _checkpoint_of(folder: ModelFolder, manifest: Manifest | None) -> Path | None:
    """The checkpoint that an export was compared with when it was added, or that lies beside it."""
    named = Path(manifest.checkpoint) if manifest and manifest.checkpoint else folder.path
    return named if has_weights(named) else None


def _without_checkpoint() -> Check:
    why = (
        "the model was not made by kvjobs models add; name the checkpoint that it was exported from by --checkpoint, "
        "or compare it with another model by --against"
    )
    return Check(name="checkpoint", against="", verdict=Verdict.LEFT_OUT, note=why)


def _against(checkpoint: Path, documents: Documents, ours: Sequence[LogProbs], is_exact: bool) -> Check:
    """The first of `ours` beside what the checkpoint says of `documents`."""
    try:
        judge = open_causal_reference(checkpoint)
    except ModelError as error:
        return Check(name="checkpoint", against=str(checkpoint), verdict=Verdict.LEFT_OUT, note=str(error))
    said = judge.log_probs(documents)
    return _compare("checkpoint", judge.name, ours[: len(documents)], said, _holds_for_each if is_exact else None)


def _together(documents: Documents, model: CausalModel) -> list[int]:
    """One document that is long."""
    return list(islice(chain.from_iterable(documents), min(model.max_positions, _LONG)))


def _cut(documents: Documents, model: CausalModel) -> list[list[int]]:
    """What the model can take at once."""
    return [list(ids[: model.max_positions]) for ids in documents]


def _against_checkpoint(
    folder: ModelFolder,
    manifest: Manifest,
    model: CausalModel,
    documents: Documents,
    ours: Sequence[LogProbs],
) -> Iterator[Check]:
    checkpoint, why = find_checkpoint(manifest)
    if checkpoint is None:
        yield Check(name="checkpoint", against=manifest.source, verdict=Verdict.LEFT_OUT, note=why)
        return
    is_exact = manifest.precision == Precision.FP32
    yield _against(checkpoint, documents[:_MOST_SLOW], ours, is_exact)
    if not is_exact:
        with tempfile.TemporaryDirectory() as place:
            exact = _read(_build_exact(Path(place), folder.path, checkpoint, manifest), documents)
        yield _compare("precision", "fp32", ours, exact)


def _build_exact(place: Path, model: Path, checkpoint: Path, manifest: Manifest) -> CausalModel:
    """Graphs in fp32 of the checkpoint that the model was made of."""
    opened = Checkpoint.open(checkpoint)
    write_causal(place, opened.config, opened.weights, precision=Precision.FP32)
    for name in CONFIGURATION:
        if (model / name).is_file():
            (place / name).write_bytes((model / name).read_bytes())
    names = [file.name for file in place.iterdir()]
    exact = dataclasses.replace(manifest, precision=str(Precision.FP32), files=records(place, names))
    (place / MANIFEST).write_bytes(exact.to_bytes())
    return open_language_model(place)


def _read(model: CausalModel, documents: Documents, *, is_packed: bool = True) -> list[LogProbs]:
    """Of each document, (T - 1,): the first token has nothing before it."""
    return [found for (found,) in _read_groups(model, [Group((), (ids,)) for ids in documents], is_packed=is_packed)]


def _read_alone(model: CausalModel, documents: Documents) -> list[LogProbs]:
    return [_read(model, [ids], is_packed=False)[0] for ids in documents]


def _read_parted(model: CausalModel, documents: Documents) -> tuple[list[LogProbs], list[LogProbs]]:
    """Second halves of documents behind their first half, and two behind the same: computed once, and each alone."""
    groups = []
    for ids, following in zip(documents, [*documents[1:], documents[0]], strict=True):
        middle = (len(ids) + 1) // 2
        another = following[len(following) // 2 :][: model.max_positions - middle]
        groups.append(Group(ids[:middle], [suffix for suffix in (ids[middle:], another) if suffix]))
    ours = [found for group in _read_groups(model, groups) for found in group]
    whole = [([*group.prefix, *suffix], len(suffix)) for group in groups for suffix in group.suffixes]
    alone = _read_alone(model, [ids for ids, _ in whole])
    return ours, [found[-num_scored:] for found, (_, num_scored) in zip(alone, whole, strict=True)]


def _read_groups(model: CausalModel, groups: Sequence[Group], *, is_packed: bool = True) -> list[list[LogProbs]]:
    is_short = max((group.longest for group in groups), default=0) <= _MOST_BYTES // (4 * model.vocab_size)
    reader = model.new_whole_reader() if is_short and not is_packed else model.new_reader(is_packed=is_packed)
    found = dict(reader.read(groups, Stopwatch(Timing.OFF), lambda: False))
    return [found[place] for place in range(len(groups))]


def _compare(
    name: str,
    against: str,
    ours: Sequence[LogProbs],
    theirs: Sequence[LogProbs],
    has_to_hold: Callable[[Floats], bool] | None = None,  # None: nothing has to be equal
) -> Check:
    """Log-probability beside log-probability, of the same tokens."""
    mine, yours = np.concatenate(ours).astype(np.float64), np.concatenate(theirs).astype(np.float64)
    gaps = np.abs(mine - yours)
    if not np.isfinite(gaps).all() or (has_to_hold is not None and not has_to_hold(gaps)):
        verdict = Verdict.DIFFERS
    else:
        verdict = Verdict.SAME if has_to_hold is _holds_for_each else Verdict.MEASURED
    return Check(
        name=name,
        against=against,
        verdict=verdict,
        num_segments=len(ours),
        num_tokens=len(mine),
        drift=float(gaps.mean()),
        worst=float(gaps.max()),
        nats=-float(mine.mean()),
        perplexity=float(np.expm1(yours.mean() - mine.mean())),
    )


def _holds_for_each(gaps: Floats) -> bool:
    return bool(gaps.max() <= _TOLERANCE)


def _holds_on_the_mean(gaps: Floats) -> bool:
    return bool(gaps.mean() <= _MEAN_TOLERANCE)


def _check_tokenizer(folder: ModelFolder, other: ModelFolder) -> None:
    for name in CAUSAL_TOKENIZER:
        one, two = folder.path / name, other.path / name
        if not two.is_file():
            raise SpecError(f"{two} is missing: {other.name} is no causal language model")
        if one.read_bytes() != two.read_bytes():
            raise SpecError(f"{folder.name} and {other.name} differ in {name}: their tokens cannot be compared")

"""
Whether a translation model says what it should: `kvjobs models verify`. Of causal ones: `verify_causal`.

    slots       segments all together, in  slots that are filled again    against each of them alone
    cache       with the cache                                            against the whole prefix at every step
    checkpoint  each step of a greedy search                              against the checkpoint itself, with no cache
    precision   translations in int8 or fp16                              against graphs in fp32 of the same checkpoint
    model       translations                                              against those of another model

The first three have to hold: a model that fails one is wrong. The last two measure what an approximation costs.

Knows: models, segments as ids. Does not know: how to print.
"""

import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from jobs.errors import ModelError, SpecError
from jobs.spec import CachePolicy, Timing
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import GenerationConfig
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.open import open_translation_model
from worker.engine.seq2seq.protocol import Seq2SeqModel
from worker.graphs.marian import write_marian
from worker.graphs.precision import Precision
from worker.model_tools.verify.checks import Check, Verdict
from worker.model_tools.verify.references import Reference, open_reference
from worker.models.checkpoint.checkpoint import Checkpoint
from worker.models.manifest import MANIFEST, Manifest, records
from worker.models.origin import find_checkpoint
from worker.models.registry import CONFIGURATION, TOKENIZER, ModelFolder, read_manifest

_TOLERANCE = 1e-3  # nats: float32 sums in another order differ by less, and so may the best of two equal tokens
_SLOTS = 8  # few, so that they are filled again
_MOST_SLOW = 16  # segments that run alone, or are judged: a judge has no cache
_MORE_TOKENS = 8  # a translation may be twice as long as its source, and so many tokens longer
_MOST_TOKENS = 128  # and no longer: a random model never ends, and where it went wrong is seen by then

Sources = Sequence[Sequence[int]]


def verify(
    folder: ModelFolder,
    sources: Sources,
    decode_text: Callable[[Sequence[int]], str],
    *,
    other: ModelFolder | None = None,
) -> Iterator[Check]:
    """Compare the model with itself and with what it was made from, one check after the other.

    `sources` are segments as ids, end-of-sentence included; `decode_text` makes text of generated ids. Raises
    ModelError where the model does not run, SpecError where `other` has another vocabulary.
    """
    if other is not None:
        _check_vocabulary(folder, other)
    model, manifest = open_translation_model(folder.path), read_manifest(folder)
    plain = _plain(model.generation, sources)
    ours = _decode(model, sources, plain, batch_size=_SLOTS)
    if manifest is not None and manifest.layout == "kv":
        alone = [found for source in sources[:_MOST_SLOW] for found in _decode(model, [source], plain, batch_size=1)]
        yield _compare("slots", "each segment alone", ours[:_MOST_SLOW], alone)
    elif model.has_cache:
        without = _decode(model, sources, plain, cache=CachePolicy("off"))
        yield _compare("cache", "without it", ours, without)
    yield from _against_checkpoint(folder, manifest, model, sources, ours, plain, decode_text)
    if other is not None:
        own = _own_rules(model.generation, sources)
        yield _compare(
            "model",
            other.name,
            _decode(model, sources, own),
            _decode(open_translation_model(other.path), sources, own),
            decode_text=decode_text,
        )


def _against_checkpoint(
    folder: ModelFolder,
    manifest: Manifest | None,
    model: Seq2SeqModel,
    sources: Sources,
    ours: Sequence[Hypothesis],
    plain: GenerationConfig,
    decode_text: Callable[[Sequence[int]], str],
) -> Iterator[Check]:
    if manifest is None or manifest.layout != "kv":
        why = "the model was not made by kvjobs models add; compare it with another one by --against"
        yield Check(name="checkpoint", against="", verdict=Verdict.LEFT_OUT, note=why)
        return
    checkpoint, why = find_checkpoint(manifest)
    if checkpoint is None:
        yield Check(name="checkpoint", against=manifest.source, verdict=Verdict.LEFT_OUT, note=why)
        return
    is_exact = manifest.precision == Precision.FP32
    yield _judge(open_reference(checkpoint), sources, ours, plain, is_exact=is_exact, head_ids=manifest.head_ids)
    if not is_exact:
        own = _own_rules(model.generation, sources)
        with tempfile.TemporaryDirectory() as place:
            exact = _decode(_build_exact(Path(place), folder.path, checkpoint, manifest), sources, own)
        yield _compare("precision", "fp32", _decode(model, sources, own), exact, decode_text=decode_text)


def _build_exact(place: Path, model: Path, checkpoint: Path, manifest: Manifest) -> Seq2SeqModel:
    """Graphs in fp32, with every id, of the checkpoint that the model was made of."""
    opened = Checkpoint.open(checkpoint)
    write_marian(place, opened.config, opened.weights, precision=Precision.FP32, head_ids=None)
    for name in CONFIGURATION:
        if (model / name).is_file():
            (place / name).write_bytes((model / name).read_bytes())
    names = [file.name for file in place.iterdir()]
    exact = dataclasses.replace(
        manifest, precision=str(Precision.FP32), head="full", head_ids=None, files=records(place, names)
    )
    (place / MANIFEST).write_bytes(exact.to_bytes())
    return open_translation_model(place)


def _judge(
    judge: Reference,
    sources: Sources,
    found: Sequence[Hypothesis],
    rules: GenerationConfig,
    *,
    is_exact: bool,
    head_ids: Sequence[int] | None,
) -> Check:
    """Each token that we chose: would the judge, after the same prefix, have chosen it?"""
    num_tokens = num_same = num_exact = 0
    worst_gap = drift = 0.0
    judged = list(zip(sources, found, strict=True))[:_MOST_SLOW]
    for source, ours in judged:
        ids = list(ours.ids)
        logits = judge.logits(source, [rules.start_id, *ids[:-1]])
        if head_ids is not None:
            kept = np.full(logits.shape[1], -np.inf, np.float32)
            kept[list(head_ids)] = 0.0
            logits += kept
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        steps = np.arange(len(ids))
        drift += abs(float(log_probs[steps, ids].sum()) - ours.log_prob)
        log_probs[:, list(rules.suppressed_ids)] = -np.inf
        chosen = log_probs.argmax(axis=1)
        same = chosen == ids
        worst_gap = max(worst_gap, float((log_probs[steps, chosen] - log_probs[steps, ids]).max(initial=0.0)))
        num_tokens, num_same, num_exact = (
            num_tokens + len(ids),
            num_same + int(same.sum()),
            num_exact + bool(same.all()),
        )
    drift /= max(1, num_tokens)
    if not math.isfinite(drift) or (is_exact and max(worst_gap, drift) > _TOLERANCE):
        verdict = Verdict.DIFFERS
    elif not is_exact:
        verdict = Verdict.MEASURED
    else:
        verdict = Verdict.SAME if num_same == num_tokens else Verdict.TIED
    return Check(
        name="checkpoint",
        against=judge.name,
        verdict=verdict,
        num_segments=len(judged),
        exact=_share(num_exact, len(judged)),
        tokens=_share(num_same, num_tokens),
        drift=drift,
    )


def _compare(
    name: str,
    against: str,
    ours: Sequence[Hypothesis],
    theirs: Sequence[Hypothesis],
    *,
    decode_text: Callable[[Sequence[int]], str] | None = None,
) -> Check:
    """Ids beside ids. With `decode_text` nothing has to be equal, and the texts are compared as well."""
    num_same = sum(one.ids == other.ids for one, other in zip(ours, theirs, strict=True))
    places = [
        one == other
        for mine, yours in zip(ours, theirs, strict=True)
        for one, other in zip(*_padded(mine.ids, yours.ids), strict=True)
    ]
    drifts = [
        abs(one.log_prob / max(1, len(one.ids)) - other.log_prob / max(1, len(other.ids)))
        for one, other in zip(ours, theirs, strict=True)
    ]
    drift = math.fsum(drifts) / max(1, len(drifts))
    is_wrong = not math.isfinite(drift) or (decode_text is None and num_same < len(ours))
    return Check(
        name=name,
        against=against,
        verdict=Verdict.DIFFERS if is_wrong else Verdict.MEASURED if decode_text else Verdict.SAME,
        num_segments=len(ours),
        exact=_share(num_same, len(ours)),
        tokens=_share(sum(places), len(places)),
        chrf=_chrf([decode_text(one.ids) for one in ours], [decode_text(one.ids) for one in theirs])
        if decode_text
        else None,
        drift=drift,
    )


def _padded(one: Sequence[int], other: Sequence[int]) -> tuple[list[int], list[int]]:
    """Equally long, so that what one has more counts as different."""
    longest = max(len(one), len(other))
    return [*one, *[-1] * (longest - len(one))], [*other, *[-2] * (longest - len(other))]


def _chrf(ours: Sequence[str], theirs: Sequence[str]) -> float | None:
    """Of all texts together; None where sacrebleu is not installed."""
    if not find_spec("sacrebleu"):
        return None
    import sacrebleu

    return float(sacrebleu.corpus_chrf(list(ours), [list(theirs)]).score)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _plain(rules: GenerationConfig, sources: Sources) -> GenerationConfig:
    """Greedy search, and nothing that forces or forbids a token by those before it: what a judge can follow."""
    return dataclasses.replace(
        _own_rules(rules, sources),
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


def _own_rules(rules: GenerationConfig, sources: Sources) -> GenerationConfig:
    """The model's own settings; a translation that runs away need not do so to the last position."""
    longest = max(map(len, sources), default=0)
    most = min(rules.max_new_tokens, 2 * longest + _MORE_TOKENS, _MOST_TOKENS)
    return dataclasses.replace(rules, max_new_tokens=most)


def _decode(
    model: Seq2SeqModel,
    sources: Sources,
    rules: GenerationConfig,
    *,
    batch_size: int = 32,
    cache: CachePolicy = CachePolicy(),  # noqa: B008 - frozen
) -> list[Hypothesis]:
    """The best hypothesis of each source, in order."""
    decoder = model.new_decoder(cache)
    best = {
        index: hypotheses[0]
        for found in decoder.decode(sources, rules, Stopwatch(Timing.OFF), lambda: False, batch_size=batch_size)
        for index, hypotheses in found
    }
    return [best[index] for index in range(len(sources))]


def _check_vocabulary(folder: ModelFolder, other: ModelFolder) -> None:
    for name in TOKENIZER:
        one, two = folder.path / name, other.path / name
        if not two.is_file():
            raise ModelError(f"{two} is missing: it belongs to the Marian tokenizer")
        if one.read_bytes() != two.read_bytes():
            raise SpecError(f"{folder.name} and {other.name} differ in {name}: their ids cannot be compared")

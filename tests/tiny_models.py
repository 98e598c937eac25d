"""The tiny models of the golden files, as exports and as native graphs, with the recorded results of transformers."""

import json
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from safetensors.numpy import load_file

from jobs.tasks.shared_options import CachePolicy, Timing
from tests.places import GOLDEN
from worker.engine.runtime.run_context import RunContext
from worker.engine.runtime.timing import Stopwatch
from worker.engine.search.generation_config import GenerationConfig, read_generation
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.search.search import search
from worker.engine.seq2seq.batches import make_batches
from worker.engine.seq2seq.exported.decoder import ExportedSteps
from worker.engine.seq2seq.exported.kv_cache import ExportedKVCache
from worker.engine.seq2seq.exported.model import ExportedSeq2Seq
from worker.engine.seq2seq.native.kv_calibration import measure_scales
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.protocol import Decoder, Seq2SeqModel
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.graphs import quantize_kv, write_seq2seq
from worker.graphs.seq2seq.quantized_kv import KVScales
from worker.models.json_file import read_json
from worker.models.manifest import MANIFEST, Manifest

FILES = {
    "merged": {"decoder_model_merged.onnx": "decoder_model_merged.onnx"},
    "two": {
        "decoder_model.onnx": "decoder_model.onnx",
        "decoder_with_past_model.onnx": "decoder_with_past_model.onnx",
    },
    "none": {"decoder_model.onnx": "decoder_model.onnx"},  # its outputs for a cache are not used
    "never": {"decoder_model_without_past.onnx": "decoder_model.onnx"},  # exported without a past
}


@dataclass(frozen=True)
class Case:
    """Settings of a search, and the recorded hypotheses[source][rank] = {"ids", "score"?}."""

    name: str
    settings: dict[str, Any]
    hypotheses: list[list[dict[str, Any]]]


@dataclass(frozen=True)
class TinyExport:
    """A tiny model as an export, in one layout."""

    folder: Path
    model: ExportedSeq2Seq
    sources: list[list[int]]
    cases: list[Case]

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def rules(self, **settings: Any) -> GenerationConfig:
        """The search rules of the model, with these settings in place of those in generation_config.json."""
        return read_generation(
            read_json(self.folder / "config.json"),
            read_json(self.folder / "generation_config.json") | settings,
            vocab_size=self.model.graphs.layout.vocab_size,
            max_positions=self.model.max_positions,
        )

    def run(
        self,
        rules: GenerationConfig,
        sources: Sequence[Sequence[int]] | None = None,
        *,
        cache: ExportedKVCache | None = None,
        policy: str = "auto",
        rows: int = 32,
        run: RunContext | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, in the order of the sources."""
        sources = self.sources if sources is None else sources
        graphs = self.model.graphs
        cache = cache or graphs.new_cache()
        run = run or RunContext(Stopwatch(Timing.OFF))
        found: dict[int, list[Hypothesis]] = {}
        for batch in make_batches(sources, max_rows=rows, pad_id=self.model.pad_id):
            decoding = ExportedSteps(graphs, cache, batch, policy=CachePolicy.parse(policy), run=run)
            found.update(zip(batch.order, search(decoding, len(batch.order), rules), strict=True))
        return [found[index] for index in range(len(sources))]


@dataclass(frozen=True)
class TinyNative:
    """A tiny model in native graphs, built from its weights."""

    folder: Path
    model: NativeSeq2Seq
    sources: list[list[int]]
    cases: list[Case]

    def case(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)

    def rules(self, **settings: Any) -> GenerationConfig:
        """The search rules of the model, with these settings in place of those in generation_config.json."""
        config = read_json(self.folder / "config.json")
        return read_generation(
            config,
            read_json(self.folder / "generation_config.json") | settings,
            vocab_size=config["decoder_vocab_size"],
            max_positions=self.model.max_positions,
        )

    def run(self, rules: GenerationConfig, **options: Any) -> list[list[Hypothesis]]:
        """The hypotheses of each source of the golden file, in the order of the sources."""
        return decode(self.model, self.sources, rules, **options)

    def draw_sources(self, count: int, longest: int = 18, seed: int = 0) -> list[list[int]]:
        """Random sources of 2 to `longest` tokens, the end included."""
        return draw_sources(read_json(self.folder / "config.json"), count, longest, seed)


def draw_sources(config: Mapping[str, Any], count: int, longest: int = 18, seed: int = 0) -> list[list[int]]:
    """Random sources of 2 to `longest` tokens, the end included."""
    rng, special = random.Random(seed), (config["eos_token_id"], config["pad_token_id"])
    words = [token_id for token_id in range(48) if token_id not in special]
    return [[*rng.choices(words, k=rng.randint(1, longest - 1)), special[0]] for _ in range(count)]


def build_kv(
    folder: Path,
    family: str,
    precision: Precision = Precision.FP32,
    *,
    head_ids: Sequence[int] | None = None,
    change: Callable[[dict[str, Any]], None] = lambda weights: None,
    kv_in_int8: bool = True,
) -> TinyNative:
    """Write and open the native graphs of a tiny model; `change` may alter its weights first. In int8 it keeps keys and
    values in int8 too, as models that are added do; those that were added before do not."""
    for file in ("config.json", "generation_config.json"):
        shutil.copy(GOLDEN / family / file, folder / file)
    weights = load_file(GOLDEN / f"{family}.safetensors")
    change(weights)
    config = read_json(folder / "config.json")
    write_seq2seq(folder, config, weights, precision=precision, head_ids=head_ids)
    if kv_in_int8 and precision is Precision.INT8:
        quantize_kv(folder, config, precision, _kv_scales(family))
    manifest = Manifest(
        layout="kv",
        architecture="marian",
        precision=precision,
        head="full" if head_ids is None else "target",
        head_ids=None if head_ids is None else tuple(head_ids),
        source=family,
        revision=None,
        source_files={},
        files={},
        versions={},
    )
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    golden = json.loads((GOLDEN / f"{family}.json").read_text(encoding="utf-8"))
    return TinyNative(folder, NativeSeq2Seq.open(folder), golden["sources"], [Case(**case) for case in golden["cases"]])


@cache
def _kv_scales(family: str) -> KVScales:
    """Of the model as it is, whatever is changed in a copy of it."""
    config, weights = read_json(GOLDEN / family / "config.json"), load_file(GOLDEN / f"{family}.safetensors")
    sources = sorted(draw_sources(config, 16), key=len, reverse=True)
    with TemporaryDirectory() as name:
        write_seq2seq(Path(name), config, weights, precision=Precision.INT8)
        return measure_scales(Path(name), config, weights, None, sources)


def decode(
    model: Seq2SeqModel,
    sources: Sequence[Sequence[int]],
    rules: GenerationConfig,
    *,
    rows: int = 32,
    decoder: Decoder | None = None,
    cache: str = "auto",
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, in the order of the sources, by the decoder that a lane uses."""
    decoder = decoder or model.new_decoder(CachePolicy.parse(cache))
    pairs = chain.from_iterable(decoder.decode(sources, rules, RunContext(Stopwatch(Timing.OFF)), batch_size=rows))
    found = sorted(pairs, key=itemgetter(0))
    assert [index for index, _ in found] == list(range(len(sources))), "each source ends once"
    return [hypotheses for _, hypotheses in found]


def assert_golden(found: Sequence[Sequence[Hypothesis]], case: Case) -> None:
    """Assert the ids of transformers, and its scores within 1e-4."""
    for index, (hypotheses, wanted) in enumerate(zip(found, case.hypotheses, strict=True)):
        ids = [list(hypothesis.ids) for hypothesis in hypotheses]
        assert ids == [one["ids"] for one in wanted], f"{case.name}, source {index}"
        for hypothesis, one in zip(hypotheses, wanted, strict=True):
            if "score" in one:
                assert hypothesis.score == pytest.approx(one["score"], rel=1e-4, abs=1e-4)


OpenTiny = Callable[..., TinyExport]  # (family, layout)
OpenKV = Callable[..., TinyNative]  # (family, precision)

"""Native graphs give the same tokens with the cache and without."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import Stopped
from jobs.tasks.shared_options import CachePolicy
from tests.checkpoints import write_marian_checkpoint, write_weights
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.hypothesis import Hypothesis
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.tasks.cache_report import TranslationWork, measure_cache
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.add.target_ids import HeadChoice
from worker.models.checkpoint.checkpoint import Checkpoint

LENGTHS = (3, 7, 7, 1, 12, 5, 5, 5, 9, 20, 2)
FAMILIES: dict[str, dict[str, Any]] = {
    "swish": {},
    "separate": {"activation": "relu", "target_vocab_size": 60},
    "wide": {"width": 24, "heads": 3, "layers": 1, "seed": 3},
    "narrow heads": {"width": 20, "heads": 2, "seed": 4},  # heads of size 10, padded to 16
}

Open = Callable[..., NativeSeq2Seq]


@pytest.fixture(scope="module")
def open_kv(tmp_path_factory: pytest.TempPathFactory) -> Open:
    opened: dict[tuple[str, str, str], NativeSeq2Seq] = {}

    def open_one(family: str = "swish", precision: str = "fp32", head: str = "full") -> NativeSeq2Seq:
        key = family, precision, head
        if key not in opened:
            folder = tmp_path_factory.mktemp("-".join(key))
            checkpoint = write_marian_checkpoint(folder / "checkpoint", **FAMILIES[family])
            if precision == "int8":  # like published models: without a bias, logits come with scales
                weights = dict(Checkpoint.open(checkpoint).weights)
                weights["final_logits_bias"] = np.zeros_like(weights["final_logits_bias"])
                write_weights(checkpoint, weights, dtype="F32", shards=1)
            request = Request(source=str(checkpoint), name="m", precision=Precision(precision), head=HeadChoice(head))
            opened[key] = NativeSeq2Seq.open(Path(add_model(request, folder / "models").path))
        return opened[key]

    return open_one


def sources(seed: int = 1) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [[*rng.integers(2, 58, length - 1).tolist(), 0] for length in LENGTHS]


def decode(
    model: NativeSeq2Seq,
    policy: str,
    *,
    beams: int,
    rows: int = 4,
    run: RunContext | None = None,
    decoder: Any = None,
) -> list[list[Hypothesis]]:
    rules = dataclasses.replace(model.generation, num_beams=beams)
    found: dict[int, list[Hypothesis]] = {}
    decoder = decoder or model.new_decoder(CachePolicy.parse(policy))
    for ended in decoder.decode(sources(), rules, run or RunContext(), batch_size=rows):
        found.update(ended)
    return [found[index] for index in range(len(LENGTHS))]


def ids_of(found: list[list[Hypothesis]]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.ids for hypothesis in best] for best in found]


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_without_the_cache_the_tokens_are_the_same(open_kv: Open, family: str, beams: int) -> None:
    model = open_kv(family)
    cached = decode(model, "on", beams=beams)

    for policy in (
        ("off", "hybrid:0", "hybrid:1", "hybrid:3", "hybrid:99") if family == "swish" else ("off", "hybrid:3")
    ):
        without_cache = decode(model, policy, beams=beams)
        assert ids_of(without_cache) == ids_of(cached), policy
        for uncached, wanted in zip(without_cache, cached, strict=True):
            for hypothesis, expected in zip(uncached, wanted, strict=True):
                assert hypothesis.score == pytest.approx(expected.score, abs=1e-5), policy
                assert hypothesis.truncated == expected.truncated, policy


@pytest.mark.parametrize("policy", ["off", "hybrid:3"])
def test_a_smaller_head_and_int8_are_decoded_without_a_cache_too(open_kv: Open, policy: str) -> None:
    model = open_kv("swish", "int8", "target")

    cached, without_cache = decode(model, "on", beams=4), decode(model, policy, beams=4)

    assert ids_of(without_cache) == ids_of(cached)


def test_a_batch_without_a_cache_gives_each_row_what_it_gets_alone(open_kv: Open) -> None:
    alone, pairs, together = (decode(open_kv(), "off", beams=4, rows=rows) for rows in (1, 2, 32))

    for found in (pairs, together):
        assert ids_of(found) == ids_of(alone)


def test_without_a_cache_every_step_runs_the_whole_prefix_of_every_row(open_kv: Open) -> None:
    run = RunContext()

    decode(open_kv(), "off", beams=1, rows=32, run=run)

    steps = [timing for timing in run.timings if timing.phase in ("prefill", "decode")]
    assert [timing.tokens for timing in steps] == [timing.rows * (timing.step + 1) for timing in steps]
    assert {timing.past_length for timing in steps} == {0}


def test_hybrid_runs_whole_prefixes_first_and_single_tokens_after(open_kv: Open) -> None:
    run = RunContext()

    decode(open_kv(), "hybrid:3", beams=1, rows=32, run=run)

    steps = [timing for timing in run.timings if timing.phase in ("prefill", "decode")]
    assert [timing.tokens // timing.rows for timing in steps[:5]] == [1, 2, 3, 1, 1]
    assert [timing.past_length for timing in steps[:5]] == [0, 0, 0, 3, 4]


def test_a_decoder_without_a_cache_can_be_used_twice(open_kv: Open) -> None:
    model = open_kv()
    for policy in ("off", "hybrid:2"):
        decoder = model.new_decoder(CachePolicy.parse(policy))

        first, second = (decode(model, policy, beams=2, decoder=decoder) for _ in range(2))

        assert first == second
        assert (decoder.buffer_stats.reuses > 0, decoder.buffer_stats.num_bytes > 0) == (policy != "off",) * 2


def test_a_batch_that_does_not_fit_is_halved_until_it_does(open_kv: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_kv()
    whole = decode(model, "off", beams=1)
    session, sizes = model.graphs.uncached_decoder(), []

    class Small:
        """A session with room for two rows."""

        def run(self, names: Any, feed: Any) -> Any:
            sizes.append(len(feed["ids"]))
            if sizes[-1] > 2:
                raise MemoryError
            return session.run(names, feed)

        def get_outputs(self) -> Any:
            return session.get_outputs()

    monkeypatch.setattr(model.graphs, "uncached_decoder", Small)

    assert decode(model, "off", beams=1, rows=8) == whole
    assert [size for size in sizes if size > 2] == [8, 4]


def test_decoding_stops_between_two_steps(open_kv: Open) -> None:
    model = open_kv()
    decoder = model.new_decoder(CachePolicy("off"))

    with pytest.raises(Stopped):
        list(decoder.decode(sources(), model.generation, RunContext(should_stop=lambda: True), batch_size=32))


@pytest.mark.parametrize("num_beams", [1, 3])
def test_both_ways_are_measured_over_the_same_steps(open_kv: Open, num_beams: int) -> None:
    work = TranslationWork(open_kv(), sources(), num_beams=num_beams, batch_size=4)  # slots are refilled

    report = measure_cache(work, target_tokens=12, num_beams=num_beams, batch_size=4, repeats=1)

    assert report.is_equal
    for run in (report.on, report.off):
        assert run.tokens_per_second == pytest.approx(len(LENGTHS) * 12 / run.seconds)
        assert run.early_s > 0
        assert run.late_s > 0
    assert report.kv_bytes > 0

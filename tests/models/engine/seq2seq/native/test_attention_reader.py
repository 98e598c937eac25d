"""Where the decoder attends: as a plain computation in numpy gives it, in every family, read again or recorded."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.places import DEMO_MODEL, GOLDEN
from tests.seq2seq_checkpoints import FAMILIES
from tests.split_models import split_kv_model
from tests.tiny_models import OpenKV, OpenTiny, build_kv
from worker.engine.runtime.first_readings import FirstReadings
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.protocol import decode_all
from worker.graphs.precision import Precision
from worker.graphs.seq2seq import graphs
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.verify.references import open_numpy_seq2seq
from worker.models.manifest import AttentionChoice

RECORDED = json.loads((GOLDEN / "seq2seq.json").read_text(encoding="utf-8"))


def read(model: NativeSeq2Seq, pairs: list[IdPair], layers: list[int], head: int | str | None = None) -> list[Any]:
    """In the order of the pairs, which go through the model in one batch. `head`: of the only layer, or "each"."""
    order = sorted(range(len(pairs)), key=lambda place: -len(pairs[place].source))
    reader, batch = model.new_attention_reader(), [pairs[place] for place in order]
    found = (
        reader.attention_by_head(batch, *layers, RunContext())
        if head == "each"
        else reader.attention(batch, layers, RunContext(), head)
    )
    return [weights for _, weights in sorted(zip(order, found, strict=True), key=lambda both: both[0])]


def in_numpy(reference: Any, pair: IdPair, start_id: int) -> list[Any]:
    """The weights of each layer (N, T, S)."""
    found: list[Any] = []
    attend = reference._attend

    def recording(x: Any, to: Any, name: str, *others: Any, **named: Any) -> Any:
        if "encoder_attn" in name or "EncDecAttention" in name:
            is_t5 = "EncDecAttention" in name
            heads = reference._heads if is_t5 else reference._heads["decoder"]
            q, k = (
                (
                    rows @ reference._weights[f"{name}.{part}.weight"].T
                    if is_t5
                    else reference._linear(rows, f"{name}.{part}_proj")
                )
                .reshape(len(rows), heads, -1)
                .swapaxes(0, 1)
                for part, rows in (("q", x), ("k", to))
            )
            scores = q @ k.swapaxes(1, 2) / (1 if is_t5 else np.sqrt(q.shape[-1]))
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            found.append(shares / shares.sum(-1, keepdims=True))
        return attend(x, to, name, *others, **named)

    reference._attend = recording
    reference.logits(pair.source, [start_id, *pair.target[:-1]])
    return found


def assert_recorded_as_read(model: NativeSeq2Seq, sources: list[list[int]], atol: float) -> None:
    """What was recorded while the best translations were decoded is what the reader finds in them, in any order."""
    of_one_head = AttentionChoice((model.graphs.shape.num_layers - 1,), reads=False, head=1)
    for beams, choice in ((1, model.attention), (3, model.attention), (2, of_one_head)):
        model = dataclasses.replace(model, attention=choice)
        run = RunContext(first_readings=FirstReadings())
        rules = dataclasses.replace(model.generation, num_beams=beams, max_new_tokens=12)
        found = decode_all(model.new_decoder(), sources, rules, run, batch_size=2)
        pairs = [IdPair(source, best.ids, rules.start_id) for source, (best, *_) in zip(sources, found, strict=True)]
        wanted_choice = model.attention_choice
        read_again = read(model, pairs, list(wanted_choice.layers), wanted_choice.head)
        for pair, wanted in zip(pairs, read_again, strict=True):
            assert run.first_readings is not None
            recorded = run.first_readings.attention(model.graphs, pair.source, pair.target)
            assert recorded is not None
            np.testing.assert_allclose(recorded, wanted, atol=atol)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_of_every_layer_are_those_of_numpy(family: str, tmp_path: Path) -> None:
    checkpoint = FAMILIES[family](tmp_path / "checkpoint")
    folder = Path(add_model(Request(source=str(checkpoint), name="model"), tmp_path / "models").path)
    model = NativeSeq2Seq.open(folder)
    pairs = [IdPair(pair["source"], pair["target"]) for pair in RECORDED[family]["pairs"]][:4]
    wanted = [in_numpy(open_numpy_seq2seq(checkpoint), pair, model.generation.start_id) for pair in pairs]
    num_layers = model.new_attention_reader().num_layers

    for layers in [*([layer] for layer in range(num_layers)), [*range(num_layers)]]:
        found = read(model, pairs, layers)

        for weights, by_layer in zip(found, wanted, strict=True):
            mean = np.mean([by_layer[layer].mean(axis=0) for layer in layers], axis=0)
            np.testing.assert_allclose(weights, mean, atol=2e-4)
    assert_recorded_as_read(model, [pair.source for pair in pairs], atol=1e-5)

    for layer in range(num_layers):
        by_head = read(model, pairs, [layer], "each")
        for weights, by_layer in zip(by_head, wanted, strict=True):
            np.testing.assert_allclose(weights, by_layer[layer], atol=2e-4)
        for head in range(len(by_head[0])):
            for weights, heads in zip(read(model, pairs, [layer], head), by_head, strict=True):
                np.testing.assert_allclose(weights, heads[head], atol=1e-6)


@pytest.mark.parametrize("precision", [Precision.INT8, Precision.FP16])
def test_in_other_precisions_the_weights_are_near_those_in_fp32(open_kv: OpenKV, precision: Precision) -> None:
    exact, other = open_kv("tiny-swish-tied"), open_kv("tiny-swish-tied", precision)
    pairs = [IdPair(source, source) for source in exact.draw_sources(6)]

    for wanted, found in zip(read(exact.model, pairs, [0, 1]), read(other.model, pairs, [0, 1]), strict=True):
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(found, wanted, atol=0.05)
    assert_recorded_as_read(other.model, exact.draw_sources(5), atol=0.02)


def test_a_screened_head_does_not_change_what_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "LARGE_HEAD", 8)
    small = build_kv(tmp_path, "tiny-swish-tied")

    assert small.model.graphs.screen() is not None
    assert_recorded_as_read(small.model, small.draw_sources(5), atol=1e-5)


def test_a_split_model_gives_the_weights_of_the_whole(tmp_path: Path) -> None:
    whole = NativeSeq2Seq.open(DEMO_MODEL)
    split = NativeSeq2Seq.open(split_kv_model(DEMO_MODEL, tmp_path / "split", 4))
    pairs = [IdPair([5, 6, 7, 8, 0], [9, 10, 11, 0]), IdPair([9, 8, 0], [12, 0])]

    for layers, head in (
        ([0], None), ([2], None), ([0, 1, 2], None), ([0, 2], None), ([1], 3), ([2], 0), ([1], "each")
    ):  # fmt: skip
        for wanted, found in zip(read(whole, pairs, layers, head), read(split, pairs, layers, head), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_an_export_does_not_tell_its_attention(open_tiny: OpenTiny) -> None:
    assert open_tiny().model.new_attention_reader() is None

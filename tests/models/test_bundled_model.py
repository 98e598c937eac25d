"""The bundled model translates texts as transformers does with its checkpoint."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

from jobs.tasks.translate import TranslateOptions
from tests.places import DEMO_MODEL
from tests.tiny_models import Case, assert_golden, decode
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.generation_config import read_generation
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.tasks.translation import Translator
from worker.graphs.file_names import DECODER
from worker.graphs.precision import Precision
from worker.graphs.seq2seq.graphs import rebuild_decoder
from worker.models.json_file import read_json
from worker.models.manifest import Manifest
from worker.text.translation.marian_tokenizer import MarianTokenizer


@pytest.fixture(scope="module")
def demo(golden_folder: Path) -> Any:
    """The bundled model, and the recorded results of sentences that it was not trained on."""
    golden = json.loads((golden_folder / "demo-en-zh.json").read_text(encoding="utf-8"))
    model = NativeSeq2Seq.open(DEMO_MODEL)
    return SimpleNamespace(model=model, cases=golden["cases"], texts=golden["texts"], sources=golden["sources"])


def test_the_bundled_model_gives_the_ids_of_its_checkpoint_in_transformers(demo: Any) -> None:
    decoder = demo.model.new_decoder()  # shared: what an earlier search left in its slots must not matter
    for case, rows in zip(demo.cases, itertools.cycle((3, 64)), strict=False):
        rules = read_generation(
            read_json(DEMO_MODEL / "config.json"),
            read_json(DEMO_MODEL / "generation_config.json") | case["settings"],
            vocab_size=demo.model.graphs.num_target_ids,
            max_positions=demo.model.max_positions,
        )
        found = decode(demo.model, demo.sources, rules, rows=rows, decoder=decoder)
        assert_golden(found, Case(case["name"], case["settings"], case["hypotheses"]))


def test_the_bundled_model_matches_its_manifest_and_the_graphs_built_today() -> None:
    manifest = Manifest.read(DEMO_MODEL)

    assert list(manifest.differences(DEMO_MODEL)) == []
    assert set(manifest.files) | {"kvjobs.json", "README.md"} == {file.name for file in DEMO_MODEL.iterdir()}
    assert not Path(manifest.source).is_absolute(), "the same on every machine"
    again = onnx.load_from_string(
        rebuild_decoder(DEMO_MODEL / "decoder.onnx", read_json(DEMO_MODEL / "config.json"), Precision.FP32, beams=1)
    ).graph
    bundled = onnx.load(str(DEMO_MODEL / DECODER), load_external_data=False).graph
    assert list(again.node) == list(bundled.node), "build it again: see tools/demo/train.py"


def test_texts_are_tokenized_to_the_recorded_ids(demo: Any) -> None:
    tokenizer = MarianTokenizer.open(DEMO_MODEL)

    assert [tokenizer.encode(text, None) for text in demo.texts] == demo.sources


def test_documents_are_translated_by_the_bundled_model(demo: Any) -> None:
    tokenizer = MarianTokenizer.open(DEMO_MODEL)
    greedy = next(case for case in demo.cases if case["name"] == "greedy")
    wanted = [tokenizer.decode(hypotheses[0]["ids"]) for hypotheses in greedy["hypotheses"]]

    translated = Translator(demo.model, tokenizer).translate(
        ["\n".join(demo.texts), *demo.texts],
        TranslateOptions(beam_size=1),
        RunContext(),
    )

    assert [outcome.text for outcome in translated.outcomes] == ["\n".join(wanted), *wanted]  # type: ignore[union-attr]

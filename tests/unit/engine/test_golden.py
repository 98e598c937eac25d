"""Every token and every score is the one that transformers 4.57 gives (tests/golden/make_golden.py)."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import worker.demo
from jobs.spec import CachePolicy, TranslateOptions
from worker.engine.batching import make_batches
from worker.engine.decoding import Decoding
from worker.engine.generation import read_generation, read_json
from worker.engine.search import search
from worker.engine.seq2seq import Seq2Seq
from worker.engine.timing import Stopwatch
from worker.engine.translation import NoMemory, Translator
from worker.text.marian import MarianTokenizer

BUNDLED = Path(worker.demo.__file__).parent / "en-zh"
FAMILIES = ("tiny-swish-tied", "tiny-relu-tied", "tiny-swish-separate", "tiny-relu-separate")


def assert_equal(found: Any, case: Any) -> None:
    for index, (hypotheses, wanted) in enumerate(zip(found, case.hypotheses, strict=True)):
        assert [list(hypothesis.ids) for hypothesis in hypotheses] == [one["ids"] for one in wanted], (
            f"{case.name}, source {index}"
        )
        for hypothesis, one in zip(hypotheses, wanted, strict=True):
            if "score" in one:
                assert hypothesis.score == pytest.approx(one["score"], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_setting_gives_the_ids_of_transformers(open_tiny: Callable[..., Any], family: str) -> None:
    tiny = open_tiny(family, "merged")
    cache = tiny.model.new_cache()  # one for all: what an earlier search left in it must not matter
    assert len(tiny.cases) >= 25
    for case in tiny.cases:
        assert_equal(tiny.run(tiny.rules(**case.settings), cache=cache), case)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("layout", "policy"),
    [
        ("merged", "off"),
        ("merged", "hybrid:3"),
        ("two", "on"),
        ("two", "off"),
        ("two", "hybrid:3"),
        ("none", "auto"),
    ],
)
def test_every_layout_and_cache_policy_gives_the_ids_of_transformers(
    open_tiny: Callable[..., Any], family: str, layout: str, policy: str
) -> None:
    tiny = open_tiny(family, layout)
    for name in ("greedy", "beam 4"):
        case = tiny.case(name)
        assert_equal(tiny.run(tiny.rules(**case.settings), policy=policy), case)


def test_a_graph_that_was_exported_without_a_past_gives_the_ids_of_transformers(
    open_tiny: Callable[..., Any],
) -> None:
    tiny = open_tiny("tiny-swish-tied", "never")
    for name in ("greedy", "beam 4"):
        case = tiny.case(name)
        assert_equal(tiny.run(tiny.rules(**case.settings)), case)


@pytest.fixture(scope="module")
def demo(golden_folder: Path) -> Any:
    """The bundled model, with sentences that it was not trained on."""
    golden = json.loads((golden_folder / "demo-en-zh.json").read_text(encoding="utf-8"))
    model = Seq2Seq.open(BUNDLED)
    return SimpleNamespace(model=model, cases=golden["cases"], texts=golden["texts"], sources=golden["sources"])


@pytest.mark.parametrize("policy", ["on", "off", "hybrid:3"])
@pytest.mark.parametrize("rows", [1, 32])
def test_the_bundled_model_says_what_its_checkpoint_says_in_transformers(demo: Any, policy: str, rows: int) -> None:
    cache = demo.model.new_cache()
    for case in demo.cases:
        if policy == "off" and case["settings"]["num_beams"] > 1:
            continue  # slow, and the same code as with the tiny models
        rules = read_generation(
            read_json(BUNDLED / "config.json"),
            read_json(BUNDLED / "generation_config.json") | case["settings"],
            vocab_size=demo.model.layout.vocab_size,
            max_positions=demo.model.max_positions,
        )
        for batch in make_batches(demo.sources, max_rows=rows, pad_id=demo.model.pad_id):
            decoding = Decoding(demo.model, cache, batch, policy=CachePolicy.parse(policy), stopwatch=Stopwatch())
            wanted = [case["hypotheses"][index] for index in batch.order]
            assert_equal(
                search(decoding, len(batch.order), rules), SimpleNamespace(name=case["name"], hypotheses=wanted)
            )


def test_texts_become_the_ids_that_the_bundled_model_was_asked_with(demo: Any) -> None:
    tokenizer = MarianTokenizer.open(BUNDLED)

    assert [tokenizer.encode(text, None) for text in demo.texts] == demo.sources


def test_documents_go_through_the_bundled_model_from_text_to_text(demo: Any) -> None:
    tokenizer = MarianTokenizer.open(BUNDLED)
    greedy = next(case for case in demo.cases if case["name"] == "greedy")
    wanted = [tokenizer.decode(hypotheses[0]["ids"]) for hypotheses in greedy["hypotheses"]]

    translated = Translator(demo.model, tokenizer).translate(
        ["\n".join(demo.texts), *demo.texts],
        TranslateOptions(beam_size=1),
        memory=NoMemory(),
        memory_digest=b"",
        should_stop=lambda: False,
    )

    assert [outcome.text for outcome in translated.outcomes] == ["\n".join(wanted), *wanted]  # type: ignore[union-attr]

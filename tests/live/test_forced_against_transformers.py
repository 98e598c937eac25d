"""log p(target | source) of fresh models in every layout and of the bundled model, compared with transformers.

The default run compares with recorded values in `tests/golden/forced.json`.
"""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("optimum.exporters.onnx")

from bench.checkpoints.demo_checkpoint import DEMO, recover
from bench.checkpoints.models import LAYOUTS, SHAPES, build, export
from bench.checkpoints.tokenizer import write_tokenizer
from jobs.outcome import Score
from jobs.tasks.score import ScoreOptions
from tests.golden.make_forced_golden import draw_pairs, log_probs
from tools.demo.grammar import unseen_bulletins
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.batches import IdPair
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.tasks.pair_scoring import PairScorer
from worker.model_tools.add.add import Request, add_model
from worker.text.translation.marian_tokenizer import MarianTokenizer

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

SEED = 9  # another seed than that of the golden files


@cache  # pytest would make a fixture anew for each layout
def compared(family: str) -> tuple[Any, list[IdPair], list[list[float]]]:
    """A model, and pairs with the log-probabilities that it gives their targets."""
    torch.set_num_threads(1)
    model = build(SHAPES[family], SEED)
    pairs = sorted(draw_pairs(model, 20), key=lambda pair: -len(pair[0]))
    return model, [IdPair(*pair) for pair in pairs], [log_probs(model, *pair) for pair in pairs]


@pytest.mark.parametrize(
    ("family", "layout"),
    [
        *(("tiny-swish-tied", layout) for layout in ("kv", *LAYOUTS)),
        # One export of this family is enough: its graphs differ only in their caches.
        *(("tiny-relu-separate", layout) for layout in ("kv", "two")),
    ],
)
def test_every_token_has_the_log_probability_of_transformers_in_every_layout(
    family: str, tmp_path: Path, layout: str
) -> None:
    model, pairs, wanted = compared(family)
    shape = SHAPES[family]
    folder = tmp_path / "exported"
    if layout == "kv":
        model.save_pretrained(folder)
        write_tokenizer(
            folder,
            source_size=shape.vocab_size,
            target_size=shape.target_vocab_size,
            eos_id=shape.eos_id,
            pad_id=shape.pad_id,
        )
        folder = Path(add_model(Request(source=str(folder), name="m"), tmp_path / "models").path)
    else:
        export(model, folder, layout)
    found = open_seq2seq_model(folder).new_scorer().log_probs(pairs, RunContext())

    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The bundled model and its tokenizer, in transformers."""
    folder = tmp_path_factory.mktemp("demo")
    recover(DEMO, folder)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    return transformers.MarianMTModel.from_pretrained(folder).eval(), tokenizer


def test_documents_given_as_texts_have_the_scores_of_transformers(demo: Any) -> None:
    """Correct and wrong translations of bulletins on which the model was not trained."""
    model, tokenizer = demo
    pairs = [pair for bulletin in unseen_bulletins(8, seed=23) for pair in bulletin.sentences]
    targets = [pair.chinese for pair in pairs]
    random.Random(SEED).shuffle(targets)
    texts = [(pair.english, pair.chinese) for pair in pairs] + [
        (pair.english, target) for pair, target in zip(pairs, targets, strict=True)
    ]
    scorer = PairScorer(NativeSeq2Seq.open(DEMO), MarianTokenizer.open(DEMO))

    produced = scorer.score(
        [json.dumps({"source": source, "target": target}) for source, target in texts],
        ScoreOptions(pairs=True, token_scores=True),
        RunContext(),
    )

    for (source, target), found in zip(texts, produced.outcomes, strict=True):
        wanted = log_probs(model, tokenizer(source)["input_ids"], tokenizer(text_target=target)["input_ids"])
        assert isinstance(found, Score)
        assert [token.log_prob for token in found.tokens] == pytest.approx(wanted, abs=1e-4)
        assert found.nll_sum == pytest.approx(-sum(wanted), abs=1e-3)


def test_the_score_is_the_loss_of_transformers_times_the_tokens(demo: Any) -> None:
    """Users of transformers write `model(**tokenizer(source, text_target=target)).loss`."""
    model, tokenizer = demo
    pair = next(pair for bulletin in unseen_bulletins(1, seed=24) for pair in bulletin.sentences)
    batch = tokenizer(pair.english, text_target=pair.chinese[::-1], return_tensors="pt")
    with torch.no_grad():
        loss = model(**batch).loss.item()

    (found,) = (
        PairScorer(NativeSeq2Seq.open(DEMO), MarianTokenizer.open(DEMO))
        .score(
            [json.dumps({"source": pair.english, "target": pair.chinese[::-1]})], ScoreOptions(pairs=True), RunContext()
        )
        .outcomes
    )

    assert isinstance(found, Score)
    assert found.nll_sum / found.num_tokens == pytest.approx(loss, abs=1e-4)

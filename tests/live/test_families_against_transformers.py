"""Checkpoints of the seq2seq families besides Marian, added by `models add`, compared with transformers: tokenizers on
text of many scripts, ids of greedy and beam search, log-probabilities of pairs."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from jobs.outcome import Score, Translation
from jobs.tasks.score import ScoreOptions
from jobs.tasks.translate import TranslateOptions
from tests.seq2seq_checkpoints import (
    FAMILIES,
    PREFIXES,
    TEXTS,
    TOKENIZERS,
    train_spm,
    write_mbart25_tokenizer,
    write_model,
)
from worker.engine.runtime.run_context import RunContext
from worker.engine.seq2seq.native.model import NativeSeq2Seq
from worker.engine.seq2seq.open import open_seq2seq_model
from worker.engine.tasks.pair_scoring import PairScorer
from worker.engine.tasks.translation import Translator
from worker.graphs.precision import Precision
from worker.model_tools.add.add import Request, add_model
from worker.text.translation.translation_tokenizer import Seq2SeqTokenizer, open_translation_tokenizer

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

SENTENCES = [text for text in TEXTS if text.count("。") < 2]  # that the splitter leaves whole
LANGUAGES = {"m2m100": ("de", "fr"), "nllb": ("deu_Latn", "fra_Latn"), "mbart": ("de_DE", "fr_XX")}
# The largest difference of a token's log-probability.
LEAST_NEAR = {Precision.FP32: 1e-5, Precision.FP16: 2e-2}

texts = st.text() | st.lists(st.sampled_from([*" ".join(TEXTS).split(), "  ", "\n", "ﬁ", "①"])).map(" ".join)


@dataclass(frozen=True)
class Both:
    """A tokenizer of transformers and ours, of the same files."""

    theirs: Any
    ours: Seq2SeqTokenizer
    target: str | None
    prefix: str


# Slow and fast; transformers has no fast class for M2M100.
WAYS = [(kind, fast) for kind in TOKENIZERS for fast in (False, True) if (kind, fast) != ("m2m100", True)]


@pytest.fixture(scope="module", params=WAYS, ids=str)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Both:
    kind, fast = request.param
    write, family, source, target = TOKENIZERS[kind]
    folder = tmp_path_factory.mktemp("tokenizer")
    write(folder, train_spm(family))
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    theirs = transformers.AutoTokenizer.from_pretrained(folder, use_fast=fast or kind == "bart")
    if theirs.is_fast:
        theirs.save_pretrained(folder)  # with tokenizer.json
    if source is not None:
        theirs.src_lang, theirs.tgt_lang = source, target
    return Both(theirs, open_translation_tokenizer(folder).for_source(source or "en"), target, PREFIXES.get(kind, ""))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(text=texts)
@example(text="")
@example(text="  rain  ")
@example(text="\U0001f327\ufe0f 雨 e\u0301")
def test_ids_are_equal(both: Both, text: str) -> None:
    assume(not any(word in text for word in both.theirs.all_special_tokens))

    assert both.ours.encode(text, both.target) == both.theirs(both.prefix + text)["input_ids"]
    ids = [piece.id for piece in both.ours.cut_target(text)]
    surroundings = {*both.ours.target_prefix(both.target), both.ours.eos_id, both.ours.beginning(both.target).start_id}
    assert ids == [one for one in both.theirs(text_target=text)["input_ids"] if one not in surroundings]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
@given(ids=st.lists(st.integers(0, 300)))
def test_decoded_text_is_equal(both: Both, ids: list[int]) -> None:
    """Of ids that have a piece."""
    ids = [one for one in ids if one < both.theirs.vocab_size]

    assert both.ours.decode(ids) == both.theirs.decode(ids, skip_special_tokens=True)


@dataclass(frozen=True)
class Model:
    """A checkpoint, its model and tokenizer in transformers."""

    checkpoint: Path
    model: Any
    tokenizer: Any
    source: str | None
    target: str | None
    prefix: str

    @property
    def first_id(self) -> int | None:
        if self.source is None:
            return None
        assert self.target is not None
        name = f"__{self.target}__" if "_" not in self.target else self.target
        return int(self.tokenizer.convert_tokens_to_ids(name))


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    torch.set_num_threads(1)
    checkpoint = FAMILIES[request.param](tmp_path_factory.mktemp("live") / "checkpoint")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(checkpoint).eval()
    prefix = PREFIXES.get(request.param, "")
    source, target = LANGUAGES.get(request.param, (None, "de" if prefix else None))
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint, use_fast=request.param == "bart")
    if source is not None:
        tokenizer.src_lang, tokenizer.tgt_lang = source, target
    return Model(checkpoint, theirs, tokenizer, source, target, prefix)


@pytest.mark.parametrize("beams", [1, 5])
def test_translations_are_equal(model: Model, tmp_path: Path, beams: int) -> None:
    translator = Translator(open_added(model, tmp_path), open_translation_tokenizer(tmp_path / "model"))
    options = TranslateOptions(
        beam_size=beams, source_language=model.source or "en", target_language=model.target, n_best=beams, reuse=False
    )

    found = translator.translate(SENTENCES, options, RunContext()).outcomes

    for sentence, outcome in zip(SENTENCES, found, strict=True):
        with torch.no_grad():
            wanted = model.model.generate(
                **model.tokenizer(model.prefix + sentence, return_tensors="pt"),
                forced_bos_token_id=model.first_id,
                num_beams=beams,
                num_return_sequences=beams,
            )
        assert isinstance(outcome, Translation)
        texts = [model.tokenizer.decode(ids, skip_special_tokens=True) for ids in wanted]
        assert outcome.text == texts[0]
        assert [one.text for one in outcome.alternatives] == (texts if beams > 1 else [])


@pytest.mark.parametrize("precision", LEAST_NEAR)
def test_log_probs_of_pairs_are_equal(model: Model, tmp_path: Path, precision: Precision) -> None:
    scorer = PairScorer(
        open_added(model, tmp_path, precision=precision), open_translation_tokenizer(tmp_path / "model")
    )
    pairs = list(zip(SENTENCES, SENTENCES[1:] + SENTENCES[:1], strict=True))
    options = ScoreOptions(
        pairs=True, source_language=model.source or "en", target_language=model.target, token_scores=True, reuse=False
    )
    written = [f'{{"source": "{source}", "target": "{target}"}}' for source, target in pairs]

    found = scorer.score(written, options, RunContext()).outcomes

    for (source, target), outcome in zip(pairs, found, strict=True):
        assert isinstance(outcome, Score)
        ours = [token.log_prob for token in outcome.tokens]
        inputs = model.tokenizer(model.prefix + source, text_target=target, return_tensors="pt")
        with torch.no_grad():
            logits = model.model(**inputs).logits[0]
        labels = inputs["labels"][0]
        theirs = torch.log_softmax(logits, -1)[torch.arange(len(labels)), labels]
        theirs = theirs[len(theirs) - len(ours) :]  # what begins a target is given
        np.testing.assert_allclose(ours, theirs, atol=LEAST_NEAR[precision])


def test_a_target_of_mbart_25_begins_with_the_language_that_the_decoder_is_fed_first(tmp_path: Path) -> None:
    checkpoint = write_model(tmp_path / "checkpoint", "mbart", write_mbart25_tokenizer, seed=5)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(checkpoint).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        checkpoint, use_fast=False, src_lang="de_DE", tgt_lang="ro_RO"
    )
    folder = Path(add_model(Request(source=str(checkpoint)), tmp_path / "models").path)
    options = TranslateOptions(source_language="de", target_language="ro", beam_size=4, reuse=False)
    start = tokenizer.convert_tokens_to_ids("ro_RO")

    for sentence, outcome in zip(SENTENCES, translate_with(folder, options), strict=True):
        inputs = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            wanted = theirs.generate(**inputs, decoder_start_token_id=start, num_beams=4)
        assert outcome.text == tokenizer.decode(wanted[0], skip_special_tokens=True)

    scorer = PairScorer(open_seq2seq_model(folder), open_translation_tokenizer(folder))
    pair = json.dumps({"source": SENTENCES[1], "target": SENTENCES[0]})
    asked = ScoreOptions(pairs=True, source_language="de", target_language="ro", reuse=False)
    (score,) = scorer.score([pair], asked, RunContext()).outcomes
    inputs = tokenizer(SENTENCES[1], text_target=SENTENCES[0], return_tensors="pt")
    labels = inputs["labels"][0][:-1]  # behind them the language, which the decoder is fed first
    with torch.no_grad():
        fed = torch.cat((torch.tensor([start]), labels[:-1]))[None]
        logits = theirs(inputs["input_ids"], decoder_input_ids=fed).logits[0]
    log_probs = torch.log_softmax(logits, -1)[torch.arange(len(labels)), labels]
    assert isinstance(score, Score)
    np.testing.assert_allclose(score.nll_sum, -float(log_probs.sum()), atol=1e-4)


@pytest.mark.parametrize("family", ["nllb", "mbart", "bart", "pegasus", "t5", "mt5"])  # M2M100 is an NLLB to Optimum
def test_an_export_gives_the_translations_of_the_native_graphs(tmp_path: Path, family: str) -> None:
    exports = pytest.importorskip("bench.checkpoints.models")
    checkpoint = FAMILIES[family](tmp_path / "checkpoint")
    exports.export_checkpoint(checkpoint, tmp_path / "exported", "merged")
    for file in checkpoint.glob("*"):
        if not (tmp_path / "exported" / file.name).exists() and file.suffix in (".json", ".model"):
            shutil.copy(file, tmp_path / "exported")
    options = TranslateOptions(
        beam_size=4, target_language="fr" if family in LANGUAGES or family in PREFIXES else None, reuse=False
    )

    native, exported = (
        translate_with(Path(add_model(Request(source=str(tmp_path / name)), tmp_path / "models").path), options)
        for name in ("checkpoint", "exported")
    )

    assert [one.text for one in exported] == [one.text for one in native]
    np.testing.assert_allclose([one.log_prob for one in exported], [one.log_prob for one in native], atol=1e-4)


def translate_with(folder: Path, options: TranslateOptions) -> list[Any]:
    translator = Translator(open_seq2seq_model(folder), open_translation_tokenizer(folder))
    return list(translator.translate(SENTENCES, options, RunContext()).outcomes)


def open_added(model: Model, models_dir: Path, **options: Any) -> NativeSeq2Seq:
    added = add_model(Request(source=str(model.checkpoint), name="model", **options), models_dir)
    return NativeSeq2Seq.open(Path(added.path))

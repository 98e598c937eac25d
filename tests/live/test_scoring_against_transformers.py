"""Scores over windows, compared with the recipe in transformers' documentation and with lm-evaluation-harness."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.places import GOLDEN

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from jobs.outcome import Score
from jobs.tasks.score import ScoreOptions, Window
from tests.small_tokenizers import byte_level, opened
from worker.engine.causal.protocol import Group, LogProbs
from worker.engine.runtime.buffer_stats import BufferStats
from worker.engine.runtime.run_context import RunContext
from worker.engine.tasks.scoring import Scorer, cut_windows
from worker.text.causal_tokenizer import CausalTokenizer

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

MAX_POSITIONS = 64
TEXT = "hello world, 字字 and é: hello worlds. " * 5


class TransformersModel:
    """A network of transformers behind the protocol of causal models; it reads one sequence at a time."""

    buffer_stats: BufferStats = BufferStats()
    max_positions = MAX_POSITIONS

    def __init__(self, network: Any) -> None:
        self.network = network
        self.vocab_size = network.config.vocab_size

    def new_reader(self, *, is_packed: bool = True) -> "TransformersModel":
        return self

    def read(self, groups: Sequence[Group], run: RunContext) -> Iterator[tuple[int, list[LogProbs]]]:
        for index, group in enumerate(groups):
            yield index, [log_probs(self.network, group.prefix, suffix) for suffix in group.suffixes]


def log_probs(network: Any, context: Sequence[int], ids: Sequence[int]) -> LogProbs:
    """log p of each of `ids`, given the context (not empty) and the ids before it."""
    with torch.no_grad():
        logits = network(torch.tensor([[*context, *ids]])).logits[0]
    everything = torch.log_softmax(logits, -1)[len(context) - 1 : -1]
    found: LogProbs = everything.gather(1, torch.tensor([ids]).T)[:, 0].numpy()
    return found


@pytest.fixture(scope="module")
def network() -> Iterator[Any]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for a network this small, more threads only wait for each other
    torch.manual_seed(5)
    config = transformers.Qwen2Config(
        vocab_size=280,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_POSITIONS,
        initializer_range=0.4,  # far from uniform, so that the context matters
    )
    yield transformers.Qwen2ForCausalLM(config).eval()
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> CausalTokenizer:
    config = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    return opened(tmp_path_factory.mktemp("tokenizer"), byte_level(), tokenizer_config=config)


def score(network: Any, tokenizer: CausalTokenizer, options: ScoreOptions) -> Score:
    scorer = Scorer(TransformersModel(network), tokenizer)
    (outcome,) = scorer.score([TEXT], options, RunContext()).outcomes
    assert isinstance(outcome, Score)
    return outcome


@pytest.mark.parametrize(("max_length", "stride"), [(64, 32), (16, 8), (16, 15), (7, 3)])
def test_strided_scores_equal_the_recipe(
    network: Any, tokenizer: CausalTokenizer, max_length: int, stride: int
) -> None:
    """ "Perplexity of fixed-length models" in transformers' documentation, on the same windows.

    It adds up each window's mean loss, times `trg_len`; that of the first window is a mean over one token fewer, so
    its published value gives that window too much weight. kvjobs sums over tokens; from its sums the published value
    follows.
    """
    options = ScoreOptions(max_length=max_length, stride=stride, token_scores=True)
    found = score(network, tokenizer, options)
    ids = torch.tensor([[tokenizer.bos_id, *tokenizer.encode(TEXT).ids]])
    length = ids.size(1)
    nll_sum, published = 0.0, []
    previous_end = 0
    for begin in range(0, length, stride):
        end = min(begin + max_length, length)
        trg_len = end - previous_end
        input_ids = ids[:, begin:end]
        target_ids = input_ids.clone()
        target_ids[:, :-trg_len] = -100
        with torch.no_grad():
            loss = float(network(input_ids, labels=target_ids).loss)
        nll_sum += loss * int((target_ids[:, 1:] != -100).sum())
        published.append(loss * trg_len)
        previous_end = end
        if end == length:
            break

    assert length > max_length + stride  # more than two windows
    assert found.num_tokens == length - 1
    assert found.nll_sum == pytest.approx(nll_sum, abs=1e-4 * length)
    token_log_probs = [token.log_prob for token in found.tokens if token.log_prob is not None]
    weighed = [
        -np.mean(token_log_probs[span.first_scored - 1 : span.stop - 1])
        * (span.stop - span.first_scored + (span.start == 0))
        for span in cut_windows(length, Window.STRIDE, max_length, stride)
    ]
    assert math.exp(sum(weighed) / length) == pytest.approx(math.exp(sum(published) / length), rel=1e-4)


RECORDED = json.loads((GOLDEN / "rolling_windows.json").read_text())["cases"]


@pytest.mark.parametrize("max_length", [63, 33, 7])
def test_disjoint_scores_equal_those_of_lm_evaluation_harness(
    network: Any, tokenizer: CausalTokenizer, max_length: int
) -> None:
    """The recorded windows of the harness, scored with transformers' log-softmax."""
    ids = tokenizer.encode(TEXT).ids[:90]
    text = TEXT.encode()[: tokenizer.encode(TEXT).stops[89]].decode()
    (windows,) = [
        case["windows"] for case in RECORDED if case["length"] == len(ids) and case["max_length"] == max_length
    ]
    sequence = [tokenizer.bos_id or 0, *ids]
    nll_sum = -sum(
        float(log_probs(network, sequence[start + 1 : first + 1], sequence[first + 1 : stop + 1]).sum())
        for start, first, stop in windows
    )
    scorer = Scorer(TransformersModel(network), tokenizer)
    options = ScoreOptions(window=Window.DISJOINT, max_length=max_length)
    (found,) = scorer.score([text], options, RunContext()).outcomes

    assert isinstance(found, Score)
    assert found.num_tokens == 90
    assert found.nll_sum == pytest.approx(nll_sum, abs=1e-4 * 90)


def test_the_recorded_windows_still_equal_those_of_lm_evaluation_harness() -> None:
    """Needs `pip install --no-deps lm_eval`: the two functions used here need none of its 40 dependencies."""
    pytest.importorskip("lm_eval")
    from tests.golden.make_rolling_windows import rolling_windows

    for case in RECORDED:
        assert rolling_windows(case["length"], case["max_length"]) == case["windows"]

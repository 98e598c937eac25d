"""GGUF files run by llama.cpp, compared with kvjobs' own graphs of the same weights, and read one by one."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tokenizers.pre_tokenizers import ByteLevel

pytest.importorskip("llama_cpp")

from bench.checkpoints.gguf_file import write_gguf
from jobs.errors import ModelError, Stopped
from jobs.outcome import Failed, Ranking, Score
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from tests.causal_checkpoints import write_causal_checkpoint
from tests.models.engine.causal.greedy_oracle import generate
from worker.engine.causal.llamacpp import library
from worker.engine.causal.llamacpp import reader as reader_module
from worker.engine.causal.llamacpp.context import ContextLimits, LlamaContext
from worker.engine.causal.llamacpp.model import LlamaCppCausal
from worker.engine.causal.llamacpp.reader import LlamaCppReader
from worker.engine.causal.llamacpp.tokenizer import LlamaCppTokenizer
from worker.engine.causal.open import open_causal_model, open_causal_tokenizer
from worker.engine.causal.protocol import Group, read_all
from worker.engine.runtime.run_context import RunContext
from worker.engine.search.continuation_rules import ContinuationRules
from worker.engine.tasks.rerank.reranking import Reranker
from worker.engine.tasks.scoring import Scorer
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.inspect.inspect import inspect_model
from worker.model_tools.verify.causal import VerifiedCausal
from worker.model_tools.verify.checks import Verdict
from worker.model_tools.verify.verify import verify
from worker.models.model_folder import ModelFolder

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

TEXTS = [
    "The snow in the rain", "", "x", "\0 a\0b", "雪が降る, and more of it", "🙂👩‍👩‍👧", "a lone \ud800 surrogate",
    "<|endoftext|> is text", "  spaces \n\n\t and tabs ", "the rain, then snow; 23 °C " * 3,
]  # fmt: skip
PAYLOADS = [
    '{"query": "snow in the rain", "candidates": [{"id": "a", "text": "the snow"}, {"id": "b", "text": "rain now"},'
    ' {"id": "c", "text": "the snow, the rain"}, {"id": "d", "text": ""}]}'
]


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def opened(gguf_models: Path) -> LlamaCppCausal:
    return LlamaCppCausal.open(gguf_models / "llama-f32")


def groups() -> list[Group]:
    """Sequences alone and behind prefixes, shorter and longer than a call of 32 tokens."""
    rng = np.random.default_rng(3)

    def ids(count: int) -> list[int]:
        return rng.integers(1, 260, count).tolist()

    return [
        *(Group((), (ids(length),)) for length in (1, 2, 31, 33, 128, 5)),
        Group(ids(20), [ids(length) for length in (1, 2, 9, 30, 60)]),  # shared, within a call
        Group(ids(70), [ids(length) for length in (3, 1, 50)]),  # a prefix longer than a call
        Group(ids(20), [ids(length) for length in (3, 1, 40, 9)], [2, 0, 36, 1]),  # some of their tokens are given
        Group(ids(5), (ids(4), ids(5)), [3, 0]),  # not worth sharing
        Group(ids(40), [ids(2) for _ in range(70)]),  # more suffixes than a call has tokens
        Group((), (ids(3), ids(1))),
    ]


def greatest_gap(one: list[list[Any]], other: list[list[Any]]) -> float:
    pairs = [(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)]
    assert [len(a) for a, _ in pairs] == [len(b) for _, b in pairs]
    return max(float(np.abs(a - b).max()) for a, b in pairs if len(a))


def test_llama_cpp_computes_in_a_thread_where_nothing_else_does(
    opened: LlamaCppCausal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of onnxruntime in int8 leave the tiles of AMX in a state of which llama.cpp knows nothing."""
    functions, threads = library.llama_cpp(), set()
    decode = functions.llama_decode
    monkeypatch.setattr(functions, "llama_decode", lambda *given: threads.add(threading.get_ident()) or decode(*given))

    read_all(opened.new_reader(), [Group((), ([1, 2, 3],))], RunContext())

    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_log_probabilities_of_float32_weights_are_those_of_our_graphs(family: str, gguf_models: Path) -> None:
    theirs, ours = open_causal_model(gguf_models / f"{family}-f32"), open_causal_model(gguf_models / family)

    gap = greatest_gap(
        read_all(theirs.new_reader(), groups(), RunContext()), read_all(ours.new_reader(), groups(), RunContext())
    )

    assert gap < 1e-3


@pytest.mark.parametrize("tokens", [32, 256])
def test_packed_and_shared_sequences_get_what_they_get_alone(tokens: int, opened: LlamaCppCausal) -> None:
    packed = LlamaCppReader(opened.network, threads=1, limits=ContextLimits(tokens, is_packed=True), bytes_per_cell=1)

    found = read_all(packed, groups(), RunContext())

    assert greatest_gap(found, read_all(opened.new_reader(is_packed=False), groups(), RunContext())) < 1e-4
    assert greatest_gap(found, read_all(opened.new_whole_reader(), groups(), RunContext())) < 1e-4


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_prompts_are_continued_as_by_our_graphs(family: str, gguf_models: Path) -> None:
    theirs, ours = open_causal_model(gguf_models / f"{family}-f32"), open_causal_model(gguf_models / family)
    prompts = [[*group.prefix, *suffix] for group in groups() for suffix in group.suffixes][:40]
    rules = ContinuationRules(max_new_tokens=8, eos_ids=(3, 4))

    expected = generate(ours, prompts, rules)

    for batch_size in (1, 5, 32):
        found = generate(theirs, prompts, rules, batch_size=batch_size)
        assert [one.ids for one in found] == [one.ids for one in expected]
        assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in expected], abs=1e-3)
    assert sum(one.num_shared for one in found) > 0


def test_a_prefix_is_computed_once(opened: LlamaCppCausal) -> None:
    shared, run = Group(list(range(1, 41)), [[7, 8, 9]] * 10), RunContext()

    read_all(opened.new_reader(), [shared], run)

    assert sum(timing.tokens for timing in run.timings if timing.phase == "prefill") == 40 + 10 * 2


def test_a_second_read_gives_the_same_bits_in_the_same_memory(opened: LlamaCppCausal) -> None:
    reader = opened.new_reader()

    first = read_all(reader, groups(), RunContext())
    allocated = reader.buffer_stats
    second = read_all(reader, groups(), RunContext())

    assert greatest_gap(first, second) == 0.0
    assert greatest_gap(first, read_all(opened.new_reader(), groups(), RunContext())) == 0.0
    assert reader.buffer_stats.allocations == allocated.allocations
    assert reader.buffer_stats.reuses > allocated.reuses


def test_the_reader_stops_between_two_calls(opened: LlamaCppCausal) -> None:
    asked: Iterator[bool] = iter((False, True))

    with pytest.raises(Stopped):
        read_all(opened.new_reader(is_packed=False), groups(), RunContext(should_stop=lambda: next(asked)))


def test_a_shortage_of_memory_halves_the_calls(opened: LlamaCppCausal, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_all(opened.new_reader(), groups(), RunContext())
    sizes = []

    class ShortContext(LlamaContext):
        def __init__(self, network: Any, size: Any, threads: int) -> None:
            sizes.append(size.tokens)
            if size.tokens > 64:
                raise MemoryError
            super().__init__(network, size, threads)

    monkeypatch.setattr(reader_module, "LlamaContext", ShortContext)
    found = read_all(opened.new_reader(), groups(), RunContext())

    assert sizes[:3] == [256, 128, 64]
    assert greatest_gap(found, expected) < 1e-4


@pytest.mark.parametrize("text", TEXTS)
def test_ids_and_places_are_those_of_our_tokenizer(text: str, gguf_models: Path) -> None:
    theirs = open_causal_tokenizer(gguf_models / "llama-f32").encode(text)
    ours = open_causal_tokenizer(gguf_models / "llama").encode(text)

    assert theirs.ids == ours.ids
    assert (theirs.starts.tolist(), theirs.stops.tolist()) == (ours.starts.tolist(), ours.stops.tolist())


@pytest.mark.parametrize("run", ["a", " ", "\n", "雪", "🙂", "1", "'"])
def test_a_hundred_thousand_equal_characters_are_tokenized(run: str, opened: LlamaCppCausal) -> None:
    encoded = LlamaCppTokenizer(opened.network).encode(run * 100_000)

    assert encoded.stops[-1] == len((run * 100_000).encode())


def test_a_text_that_the_vocabulary_cannot_spell_fails_alone(gguf_models: Path, tmp_path: Path) -> None:
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama", ffn=64)
    tokenizer = (checkpoint / "tokenizer.json").read_text()
    (checkpoint / "tokenizer.json").write_text(tokenizer.replace('"z"', '"zz"'))  # no token for the byte z
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2")
    model = add_model(Request(source=str(tmp_path / "file.gguf"), keep_gguf=True), tmp_path / "models")
    loaded = open_causal_model(Path(model.path))

    scorer = Scorer(loaded, open_causal_tokenizer(Path(model.path), loaded))
    good, bad = scorer.score(["the snow", "a zebra"], ScoreOptions(), RunContext()).outcomes

    assert isinstance(good, Score)
    assert isinstance(bad, Failed)
    assert "do not join to it" in bad.message


@pytest.mark.parametrize(
    ("add_bos", "add_space_prefix", "text"),
    [(True, True, "a bad ab"), (False, True, "a"), (None, True, " a"), (True, False, "ab"), (True, True, "a▁b")],
)
def test_sentencepiece_puts_a_space_and_a_bos_as_the_file_asks(
    add_bos: bool | None, add_space_prefix: bool, text: str, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    file = tmp_path / "model" / "model.gguf"
    write_sentencepiece(file, add_bos, add_space_prefix)
    tokenizer = LlamaCppTokenizer(LlamaCppCausal.open(file.parent, vocab_only=True).network)

    encoded = tokenizer.encode(text)

    content = text.encode()
    parts = [content[a:b] for a, b in zip(encoded.starts, encoded.stops, strict=True)]
    assert b"".join(parts) == content
    assert tokenizer.bos_id == (None if add_bos is False else 1)
    assert tokenizer.token_text(encoded.ids[0]).startswith(" ") == (add_space_prefix or text.startswith(" "))


def write_sentencepiece(file: Path, add_bos: bool | None, add_space_prefix: bool) -> None:
    """The header of a model with SentencePiece's vocabulary: bytes, letters, and a word."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a"]
    kinds = gguf.TokenType
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256, *[kinds.NORMAL] * 4]
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(64)
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(number) for number in range(len(pieces))])
    writer.add_token_types(types)
    writer.add_add_space_prefix(add_space_prefix)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    writer.add_tensor("token_embd.weight", np.zeros((len(pieces), 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_scores_and_rankings_are_those_of_our_graphs(gguf_models: Path) -> None:
    results = []
    for name in ("llama-f32", "llama"):
        model = open_causal_model(gguf_models / name)
        tokenizer = open_causal_tokenizer(gguf_models / name, model)
        scored = Scorer(model, tokenizer).score(TEXTS, ScoreOptions(token_scores=True), RunContext())
        ranked = Reranker(model, tokenizer).rerank(PAYLOADS, RerankOptions(), RunContext())
        results.append((scored.outcomes, ranked.outcomes[0]))

    (theirs, their_ranking), (ours, our_ranking) = results
    for one, other in zip(theirs, ours, strict=True):
        assert isinstance(one, Score)
        assert isinstance(other, Score)
        assert (one.num_tokens, one.num_words, one.num_bytes, one.flags) == (
            other.num_tokens, other.num_words, other.num_bytes, other.flags,
        )  # fmt: skip
        assert one.nll_sum == pytest.approx(other.nll_sum, abs=1e-3)
        assert [token.text for token in one.tokens] == [token.text for token in other.tokens]
    assert isinstance(their_ranking, Ranking)
    assert isinstance(our_ranking, Ranking)
    assert [one.id for one in their_ranking.candidates] == [one.id for one in our_ranking.candidates]
    assert their_ranking.num_shared == our_ranking.num_shared


def test_scores_of_a_text_do_not_depend_on_sharing(gguf_models: Path) -> None:
    model = open_causal_model(gguf_models / "llama-f32")
    reranker = Reranker(model, open_causal_tokenizer(gguf_models / "llama-f32", model))

    shared, alone = (
        reranker.rerank(PAYLOADS, RerankOptions(prefix_cache=cache), RunContext()).outcomes[0]
        for cache in (True, False)
    )

    assert isinstance(shared, Ranking)
    assert isinstance(alone, Ranking)
    for one, other in zip(shared.candidates, alone.candidates, strict=True):
        assert (one.id, one.score) == (other.id, pytest.approx(other.score, abs=1e-4))


def checks_of(gguf_models: Path, name: str) -> dict[str, Any]:
    folder, family = ModelFolder(name, gguf_models / name), VerifiedCausal()
    return {check.name: check for check in verify(folder, family.read_sample(folder, None, 4), family)}


def test_verify_compares_float32_weights_with_numpy(gguf_models: Path) -> None:
    checks = checks_of(gguf_models, "qwen3-f32")

    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(
        ("packed", "cache", "checkpoint"), Verdict.SAME
    )


@pytest.mark.parametrize("name", ["llama-q8_0", "llama-q4_0"])
def test_verify_measures_what_quantization_costs(name: str, gguf_models: Path) -> None:
    check = checks_of(gguf_models, name)["checkpoint"]

    assert check.verdict is Verdict.MEASURED
    assert 0 < check.drift < 0.5


def test_verify_compares_a_quantized_file_with_our_graphs(gguf_models: Path) -> None:
    folder, family = ModelFolder("llama-q8_0", gguf_models / "llama-q8_0"), VerifiedCausal()
    other = ModelFolder("llama", gguf_models / "llama")

    checks = {check.name: check for check in verify(folder, family.read_sample(folder, None, 4), family, other=other)}

    assert checks["model"].verdict is Verdict.MEASURED
    assert 0 < checks["model"].drift < 0.5


def test_inspect_loads_the_file_in_another_process(gguf_models: Path) -> None:
    found = inspect_model(ModelFolder("llama-q4_0", gguf_models / "llama-q4_0"))

    assert (found.problems, found.warnings) == ((), ())
    assert str(found.conclusion).startswith("a GGUF file as it is")


def test_a_file_that_llama_cpp_refuses_is_not_added(tmp_path: Path) -> None:
    checkpoint = write_causal_checkpoint(tmp_path / "tiny", "llama", ffn=64)
    write_gguf(checkpoint, tmp_path / "file.gguf", "f32", pre="gpt-2", general__architecture="unheard-of",
               **{"unheard-of__context_length": 64, "unheard-of__block_count": 2})  # fmt: skip

    with pytest.raises(ModelError, match=r"llama\.cpp cannot load .*file\.gguf: .*unknown model architecture"):
        add_model(Request(source=str(tmp_path / "file.gguf")), tmp_path / "models")
    assert not any((tmp_path / "models").iterdir())


def test_llama_cpp_writes_to_the_log_and_not_to_the_terminal(
    gguf_models: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger=library.__name__):
        read_all(LlamaCppCausal.open(gguf_models / "llama-f32").new_reader(), groups()[:2], RunContext())

    assert any("llama_model" in record.getMessage() for record in caplog.records)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "llama_model" not in captured.err


def test_a_recurrent_model_is_read_one_sequence_after_another(tmp_path: Path) -> None:
    """Its state belongs to the last token: a prefix that were shared would begin with the end of another suffix."""
    write_mamba(tmp_path / "mamba.gguf")
    model = add_model(Request(source=str(tmp_path / "mamba.gguf")), tmp_path / "models")
    loaded = open_causal_model(Path(model.path))
    groups = [Group([5, 6, 7] * 30, [[1, 2, 3], [9, 8], [4]]), Group((), ([3, 1, 4, 1, 5] * 60,))]

    found = read_all(loaded.new_reader(), groups, RunContext())

    whole = [Group((), ([*groups[0].prefix, *suffix],)) for suffix in groups[0].suffixes]
    alone = [read_all(loaded.new_whole_reader(), [group], RunContext())[0][0] for group in (*whole, groups[1])]
    expected = [*(one[-len(suffix) :] for one, suffix in zip(alone, groups[0].suffixes, strict=False)), alone[-1]]
    assert greatest_gap([[each for group in found for each in group]], [expected]) < 1e-4
    assert len(np.unique(np.concatenate(expected))) > 100  # the model tells tokens apart


def write_mamba(file: Path) -> None:
    """A Mamba model with random weights and a vocabulary of bytes."""
    width, inner, state, rank, letters = 32, 64, 8, 2, sorted(ByteLevel.alphabet())
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(file, "mamba")
    writer.add_context_length(1024)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_block_count(2)
    writer.add_ssm_conv_kernel(4)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["<|endoftext|>", *letters])
    writer.add_token_types([gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * 256])
    writer.add_token_merges([f"{letters[0]} {letters[1]}"])
    shapes = {
        "attn_norm.weight": (width,), "ssm_in.weight": (2 * inner, width), "ssm_conv1d.weight": (inner, 4),
        "ssm_conv1d.bias": (inner,), "ssm_x.weight": (rank + 2 * state, inner), "ssm_dt.weight": (inner, rank),
        "ssm_dt.bias": (inner,), "ssm_a": (inner, state), "ssm_d": (inner,), "ssm_out.weight": (width, inner),
    }  # fmt: skip
    tensors = {f"blk.{layer}.{name}": shape for layer in range(2) for name, shape in shapes.items()}
    for name, shape in {"token_embd.weight": (257, width), "output_norm.weight": (width,), **tensors}.items():
        weight = rng.normal(0.0, 0.3, shape).astype(np.float32)
        writer.add_tensor(name, -np.abs(weight) if name.endswith("ssm_a") else weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

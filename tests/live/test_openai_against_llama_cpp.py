"""The provider openai against a real server, llama-cpp-python's, with the bundled language model as a GGUF file in F32.

The scores have to be those of our own graphs. llama.cpp keeps keys and values in F16 unless it is told otherwise, which
alone moves a document by 0.04 nats (`--type_k 0 --type_v 0`: F32).
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("llama_cpp")
pytest.importorskip("sse_starlette", reason="the extra `server` of llama-cpp-python is missing")

from bench.checkpoints.gguf_file import write_gguf
from bench.checkpoints.lm_checkpoint import DEMO, recover
from jobs.answers import Unanswered
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.outcome import Finish, Flag, Generation, Outcome, Ranking, Score, Translation
from jobs.providers import Choice, Reason
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.places import CHECKOUT
from tests.rows import batch_of
from worker.engine.runtime.run_context import RunContext
from worker.model_tools.add.add import Request, add_model
from worker.models.registry import find_model
from worker.providers.available.onnx import OnnxProvider
from worker.providers.available.openai import OpenAIProvider
from worker.providers.protocol import Provider, ProviderJob

TEXTS = [json.loads(line)["text"] for line in (CHECKOUT / "examples" / "mixed.jsonl").read_text().splitlines()][:6]
# Characters that the model's tokenizer cuts into parts, and white space where it matters.
HARD_TEXTS = [
    "It will rain 雨。 in Arden",
    "café naïve é",
    "  leading spaces",
    "\ttab\nline\r\nend",
    "trailing space ",
    "I",
]
BOS = {"tokenizer__ggml__add_bos_token": True, "tokenizer__ggml__bos_token_id": 0}
WITHIN = 1e-3  # nats, of a whole document


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """demo-lm as GGUF, as it is and with a BOS before each text."""
    folder = tmp_path_factory.mktemp("gguf")
    recover(DEMO, folder / "checkpoint")
    files = {name: folder / f"{name}.gguf" for name in ("plain", "with-bos")}
    write_gguf(folder / "checkpoint", files["plain"], "f32", pre="qwen2")
    write_gguf(folder / "checkpoint", files["with-bos"], "f32", pre="qwen2", **BOS)
    return files


@pytest.fixture(scope="module", params=["plain", "with-bos"])
def served(
    request: pytest.FixtureRequest, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Settings]]:
    """The model's name here, and settings with a server that has the same weights."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(home=home, models_dir=home / "models")
    name = "demo-lm"
    if request.param == "with-bos":
        name = "demo-bos"
        add_model(Request(source=str(files[request.param]), name=name), settings.models_dir)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = ["--model", str(files[request.param]), "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "1024"]
    arguments += ["--logits_all", "true", "--type_k", "0", "--type_v", "0", "--model_alias", name, "--verbose", "false"]
    server = subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/v1/models", server)
        yield name, replace(settings, openai_base_url=f"http://127.0.0.1:{port}/v1")
    finally:
        server.kill()
        server.wait()


def _wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the server does not answer")


def ask(provider: Provider, spec: JobSpec, texts: list[str]) -> list[Outcome | Unanswered]:
    lane, job = provider.new_lane(), ProviderJob(spec, Choice(provider.name))
    assert provider.why_not(job) is None
    lane.open(job)
    return list(lane.process(job, batch_of(texts), RunContext()).outcomes)


def both(served: tuple[str, Settings], spec: JobSpec, texts: list[str]) -> Iterator[tuple[object, object]]:
    """What our graphs and the server answer to each text."""
    name, settings = served
    arguments = WorkerArguments(settings)
    spec = replace(spec, model=name, model_revision=find_model(name, settings.models_dir).revision())
    server = OpenAIProvider.start(arguments)
    try:
        yield from zip(ask(OnnxProvider.start(arguments), spec, texts), ask(server, spec, texts), strict=True)
    finally:
        server.close()


SCORE = JobSpec(task=Task.SCORE, model="", model_revision="", options=ScoreOptions(reuse=False, token_scores=True))


def test_a_server_scores_a_text_as_our_own_graphs_do(served: tuple[str, Settings]) -> None:
    texts = TEXTS + HARD_TEXTS
    for text, (ours, theirs) in zip(texts, both(served, SCORE, texts), strict=True):
        assert isinstance(ours, Score)
        if served[0] == "demo-lm" and not text.isascii():  # without a BOS it does not tell parts of a character apart
            assert isinstance(theirs, Unanswered)
            assert theirs.code is Reason.DECLINED
            continue
        assert isinstance(theirs, Score)
        assert theirs.nll_sum == pytest.approx(ours.nll_sum, abs=WITHIN)
        assert (theirs.num_tokens, theirs.flags) == (ours.num_tokens, ours.flags)
        assert (theirs.num_words, theirs.num_bytes) == (ours.num_words, ours.num_bytes)
        assert [(one.start, one.stop) for one in theirs.tokens] == [(one.start, one.stop) for one in ours.tokens]
        for mine, other in zip(ours.tokens, theirs.tokens, strict=True):
            assert other.log_prob == (None if mine.log_prob is None else pytest.approx(mine.log_prob, abs=WITHIN))


def test_a_server_ranks_candidates_as_our_own_graphs_do(served: tuple[str, Settings]) -> None:
    candidates = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS[:4])]
    payload = json.dumps({"query": "Will it rain in Arden?", "candidates": candidates})
    spec = replace(SCORE, task=Task.RERANK, options=RerankOptions())

    ((ours, theirs),) = both(served, spec, [payload])

    assert isinstance(ours, Ranking)
    assert isinstance(theirs, Ranking)
    assert [one.id for one in theirs.candidates] == [one.id for one in ours.candidates]
    for mine, other in zip(ours.candidates, theirs.candidates, strict=True):
        assert other.score == pytest.approx(mine.score, abs=WITHIN)


def test_a_server_translates_by_chat_and_tells_the_log_probability(served: tuple[str, Settings]) -> None:
    """The model has not learned to translate: what counts is how it is asked, and how the answer is read."""
    name, settings = served
    options = TranslateOptions(target_language="de", max_new_tokens=5)
    spec = replace(SCORE, task=Task.TRANSLATE, model=name, options=options)
    server = OpenAIProvider.start(WorkerArguments(settings))
    try:
        (found,) = ask(server, spec, ["It will rain."])
    finally:
        server.close()

    assert isinstance(found, Translation)
    assert found.text
    assert found.flags == (Flag.TRUNCATED,)
    assert found.log_prob is not None
    assert -5 * 20 < found.log_prob < 0
    assert found.num_target_tokens == 5


PROMPTS = [" ".join(text.split()[:4]) for text in TEXTS] + ["It will rain 雨。 in Arden", "  Two spaces", "I"]
GENERATE = replace(SCORE, task=Task.GENERATE, options=GenerateOptions(max_new_tokens=24))


@pytest.mark.parametrize("stop", [(), (" and", "."), ("\n",)], ids=repr)
def test_a_server_continues_a_prompt_greedily_as_our_own_graphs_do(
    served: tuple[str, Settings], stop: tuple[str, ...]
) -> None:
    spec = replace(GENERATE, options=GenerateOptions(max_new_tokens=24, stop=stop))
    for prompt, (ours, theirs) in zip(PROMPTS, both(served, spec, PROMPTS), strict=True):
        assert isinstance(ours, Generation)
        assert isinstance(theirs, Generation)
        assert theirs.text == ours.text, prompt
        assert theirs.num_prompt_tokens == ours.num_prompt_tokens
        if ours.finish is Finish.EOS:  # a server does not tell which of both it was, nor the end's log-probability
            assert theirs.finish is (Finish.STOP if stop else Finish.EOS)
            continue
        assert (theirs.finish, theirs.num_new_tokens) == (ours.finish, ours.num_new_tokens)
        assert theirs.log_prob == pytest.approx(ours.log_prob, abs=WITHIN)


def test_a_server_draws_the_same_text_again_with_the_same_seed(served: tuple[str, Settings]) -> None:
    name, settings = served
    server = OpenAIProvider.start(WorkerArguments(settings))
    try:
        drawn = [
            [
                one.text
                for one in ask(
                    server,
                    replace(
                        GENERATE, model=name, options=GenerateOptions(max_new_tokens=16, temperature=1.0, seed=seed)
                    ),
                    PROMPTS,
                )
                if isinstance(one, Generation)
            ]
            for seed in (1, 1, 2)
        ]
    finally:
        server.close()

    assert len(drawn[0]) == len(PROMPTS)
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_a_server_answers_a_chat_by_its_own_template(served: tuple[str, Settings]) -> None:
    """The model has not learned to chat: what counts is how it is asked, and how the answer is read."""
    name, settings = served
    server = OpenAIProvider.start(WorkerArguments(settings))
    options = GenerateOptions(max_new_tokens=5, chat=True, system="Be brief.")
    try:
        (found,) = ask(server, replace(GENERATE, model=name, options=options), ['{"text": "Will it rain?"}'])
    finally:
        server.close()

    assert isinstance(found, Generation)
    assert (found.finish, found.num_new_tokens, found.flags) == (Finish.LENGTH, 5, (Flag.TRUNCATED,))
    assert found.log_prob is not None
    assert -5 * 20 < found.log_prob < 0


def test_a_text_longer_than_the_context_of_the_server_is_declined_alone(served: tuple[str, Settings]) -> None:
    name, settings = served
    server = OpenAIProvider.start(WorkerArguments(settings))
    try:
        short, long = ask(server, replace(SCORE, model=name), [TEXTS[0], " ".join(TEXTS * 2)])
    finally:
        server.close()

    assert isinstance(short, Score)
    assert isinstance(long, Unanswered)
    assert (long.code, "longer than the server takes" in long.reason) == (Reason.DECLINED, True)

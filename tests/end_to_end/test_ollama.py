"""A job that an Ollama server answers, and onnx where it does not. The server is a stand-in of the documented API."""

import json

import pytest

from tests.command_line import Kvjobs
from tests.machine import Machine
from tests.ollama_stand_in import OllamaStandIn, ollama
from tests.worker_here import worker_here

TEXTS = {"a": "It will rain in Arden.", "long": "It will rain in Arden. " * 12, "b": "It will be dry in Selby."}


def test_onnx_translates_what_is_longer_than_the_context_of_ollama(
    machine: Machine, kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = machine.folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in TEXTS.items()))

    with ollama(OllamaStandIn(context=70)) as (_, api):
        monkeypatch.setenv("KVJOBS_OLLAMA_HOST", f"127.0.0.1:{api.port}")
        with worker_here():
            done = kvjobs("submit", corpus, "--providers", "ollama:m,onnx", "--wait")

    assert done.exit_code == 0, done.err
    results = {record["id"]: record for record in map(json.loads, done.out.splitlines())}
    assert {name: record["provider"] for name, record in results.items()} == {
        "a": "ollama",
        "b": "ollama",
        "long": "onnx",
    }
    assert (results["a"]["translation"], "阿登" in results["long"]["translation"]) == ("IT WILL RAIN IN ARDEN.", True)
    counted = machine.ask("select provider, documents, requests from job_providers order by provider")
    assert counted == [("ollama", 2, 2), ("onnx", 1, 0)]
    assert machine.ask("select code, provider, documents from v_handovers") == [("declined", "ollama", 1)]

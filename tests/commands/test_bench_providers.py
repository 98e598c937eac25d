"""`kvjobs bench providers`: each provider on a sample, in a table or as JSON."""

import json
from pathlib import Path

import pytest

from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.places import CHECKOUT

SAMPLE = str(CHECKOUT / "examples" / "bulletins.jsonl")


def test_providers_are_compared_and_one_without_a_key_says_so(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    run = ["bench", "providers", SAMPLE, "--limit", "4", "--providers", "onnx,openai"]

    shown, as_json = kvjobs(*run), kvjobs(*run, "--json")

    assert (shown.exit_code, as_json.exit_code) == (1, 1)
    onnx, openai = json.loads(as_json.out)
    assert (onnx["documents"], onnx["times_as_fast"], onnx["same"]) == (4, 1.0, None)
    assert (openai["documents"], openai["times_as_fast"]) == (0, None)
    assert "no key" in openai["why_not"]
    assert "Fastest: onnx." in shown.err
    assert line_with(shown.err, "openai", "no key", "api.openai.com")
    assert all(len(line) <= 80 for line in shown.out.splitlines())


def test_a_sample_without_a_document_is_refused(kvjobs: Kvjobs, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("not json\n")

    ran = kvjobs("bench", "providers", str(tmp_path / "bad.jsonl"), "--providers", "onnx")

    assert ran.exit_code == 2
    assert "has no document" in ran.err

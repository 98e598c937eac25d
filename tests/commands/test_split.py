"""`kvjobs models split`, in this process, on the bundled model."""

from pathlib import Path

import pytest

from tests.command_line import Kvjobs
from tests.messages import line_with


def test_a_split_model_is_described_stage_by_stage(kvjobs: Kvjobs, home: Path) -> None:
    made = kvjobs("models", "split", "demo-lm", "--stages", 3)

    lines = made.out.splitlines()
    assert made.exit_code == 0
    assert lines[0].startswith("Model demo-lm-3-stages, split in ")
    assert lines[2] == "  model      demo-lm, in 3 stages"
    assert [line.split(";")[0] for line in lines[3:9:2]] == [
        "  stage 0    cpu: embeddings, 2 layers",
        "  stage 1    cpu: 1 layer",
        "  stage 2    cpu: 1 layer, head",
    ]
    assert lines[9:] == [
        "  sends      512 bytes a token, from stage 0 to the next",
        "  sends      512 bytes a token, from stage 1 to the next",
    ]
    assert made.err == "Next: kvjobs models verify demo-lm-3-stages --against demo-lm\n"
    page = kvjobs("models", "inspect", "demo-lm-3-stages").out
    assert "\n  stages     3, of demo-lm\n" + "\n".join(lines[3:]) + "\n" in page
    assert page.startswith("Model demo-lm-3-stages: can run\n")
    assert (home / "models" / "demo-lm-3-stages").is_dir()


def test_the_first_stage_of_a_translation_model_is_its_encoder(kvjobs: Kvjobs) -> None:
    lines = kvjobs("models", "split", "demo-en-zh", "--stages", 3).out.splitlines()

    assert [line.split(";")[0] for line in lines[3:9:2]] == [
        "  stage 0    cpu: encoder",
        "  stage 1    cpu: embeddings, 2 decoder layers",
        "  stage 2    cpu: 1 decoder layer, head",
    ]
    page = kvjobs("models", "inspect", "demo-en-zh-3-stages").out
    assert page.startswith("Model demo-en-zh-3-stages: can run\n")
    assert "\n  stages     3, of demo-en-zh\n" + "\n".join(lines[3:]) + "\n" in page


def test_a_split_model_has_the_log_probabilities_of_the_whole_one(kvjobs: Kvjobs, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("Rain in the hills.\nSnow on the plain tomorrow.\n")
    kvjobs("models", "split", "demo-lm")

    checks = kvjobs(
        "models", "verify", "demo-lm-2-stages", "--against", "demo-lm", "--sample", tmp_path / "corpus.txt", "--json"
    ).json

    (against,) = [check for check in checks if check["name"] == "model"]
    assert (against["worst"], against["against"]) == (0.0, "demo-lm")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["demo-lm", "--stages", "5"], ["demo-lm ", "4 layers", "4 stages"]),
        (["demo-en-zh", "--stages", "9"], ["demo-en-zh ", "3 decoder layers", "into 4"]),
        (["demo-lm", "--devices", "cpu,cpu,cpu"], ["2 stages", "3 devices"]),
        (["demo-lm", "--devices", "gpu"], ["no device 'gpu'"]),
        (["demo-lm", "--memory", "1G"], ["--separate", "--memory"]),
        (["demo-lm", "--memory", "much", "--separate"], ["'much'", "not a size"]),
        (["demo-lm", "--name", "a/b"], ["'a/b' cannot be"]),
    ],
)
def test_what_cannot_be_split_so_is_refused(kvjobs: Kvjobs, home: Path, arguments: list[str], facts: list[str]) -> None:
    result = kvjobs("models", "split", *arguments)

    assert result.exit_code == 2
    assert line_with(result.err, *facts)
    assert not list(home.glob("models/*"))


def test_a_split_model_is_not_split_again_and_a_taken_name_is_kept(kvjobs: Kvjobs) -> None:
    kvjobs("models", "split", "demo-lm")

    assert "split demo-lm," in kvjobs("models", "split", "demo-lm-2-stages").err
    assert line_with(kvjobs("models", "split", "demo-lm").err, "already", "demo-lm-2-stages")
    assert kvjobs("models", "split", "demo-lm", "--force").exit_code == 0


def test_a_missing_file_of_a_stage_is_named_with_the_command_that_makes_it(kvjobs: Kvjobs, home: Path) -> None:
    kvjobs("models", "split", "demo-lm")
    (home / "models" / "demo-lm-2-stages" / "stage.1.data").unlink()

    result = kvjobs("models", "verify", "demo-lm-2-stages")

    assert result.exit_code == 2
    assert line_with(result.err, "stage.1.data", "missing", "`kvjobs models split demo-lm`", "--force")

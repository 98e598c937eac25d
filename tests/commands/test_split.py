"""`kvjobs models split`, in this process, on the bundled model."""

from pathlib import Path

import pytest

from tests.command_line import Kvjobs


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
    ("arguments", "message"),
    [
        (["demo-lm", "--stages", "5"], "demo-lm has 4 layers, so it can be split into 4 stages at most"),
        (["demo-en-zh", "--stages", "9"], "demo-en-zh has an encoder and 3 decoder layers, so it can be split into 4"),
        (["demo-lm", "--devices", "cpu,cpu,cpu"], "there are 2 stages and 3 devices"),
        (["demo-lm", "--devices", "gpu"], "there is no device 'gpu'"),
        (["demo-lm", "--memory", "1G"], "add --separate, or leave --memory out"),
        (["demo-lm", "--memory", "much", "--separate"], "'much' is not a size: write 500M or 1.5G"),
        (["demo-lm", "--name", "a/b"], "'a/b' cannot be the name of a model"),
    ],
)
def test_what_cannot_be_split_so_is_refused(kvjobs: Kvjobs, home: Path, arguments: list[str], message: str) -> None:
    result = kvjobs("models", "split", *arguments)

    assert result.exit_code == 2
    assert message in result.err
    assert not list(home.glob("models/*"))


def test_a_split_model_is_not_split_again_and_a_taken_name_is_kept(kvjobs: Kvjobs) -> None:
    kvjobs("models", "split", "demo-lm")

    assert "split demo-lm, of which it was made" in kvjobs("models", "split", "demo-lm-2-stages").err
    assert "there is already a model demo-lm-2-stages" in kvjobs("models", "split", "demo-lm").err
    assert kvjobs("models", "split", "demo-lm", "--force").exit_code == 0


def test_a_missing_file_of_a_stage_is_named_with_the_command_that_makes_it(kvjobs: Kvjobs, home: Path) -> None:
    kvjobs("models", "split", "demo-lm")
    (home / "models" / "demo-lm-2-stages" / "stage.1.data").unlink()

    result = kvjobs("models", "verify", "demo-lm-2-stages")

    assert result.exit_code == 2
    assert "stage.1.data is missing: `kvjobs models split demo-lm` wrote it: run that again with --force" in result.err

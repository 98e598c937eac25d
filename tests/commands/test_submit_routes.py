"""`kvjobs submit --via`: which two models are found, what is refused, and the job that is stored."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs.store.database import Database
from jobs.store.report.job_summary import find_job
from tests.checkpoints import write_marian_checkpoint
from tests.command_line import Kvjobs
from tests.messages import line_with
from worker.model_tools.add.add import Request, add_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for one pair, and one with two target languages."""
    folder, made = tmp_path_factory.mktemp("checkpoints"), tmp_path_factory.mktemp("models")
    one = write_marian_checkpoint(folder / "tiny-fr-en")
    several = write_marian_checkpoint(folder / "tiny-mul", seed=1)
    vocabulary = json.loads((several / "vocab.json").read_text())
    labels = iter([">>eng<<", ">>deu<<"])
    renamed = {next(labels, piece) if number in (40, 41) else piece: number for piece, number in vocabulary.items()}
    (several / "vocab.json").write_text(json.dumps(renamed))
    for checkpoint in (one, several):
        add_model(Request(source=str(checkpoint), name=checkpoint.name), made)
    return made


@pytest.fixture(autouse=True)
def corpus(home: Path, tmp_path: Path, models: Path) -> None:
    shutil.copytree(models, home / "models", dirs_exist_ok=True)
    (tmp_path / "corpus.jsonl").write_text('{"id": "a", "text": "rain in the hills"}\n')


def legs(database: Database, job: int | str) -> list[tuple[str, str, str | None]]:
    """Model, source language and label of each."""
    with database.reading() as connection:
        (route,) = json.loads(find_job(connection, str(job)).options)["routes"]
    return [(leg["model"], leg["source_language"], leg["target_language"]) for leg in route["legs"]]


def test_models_that_are_named_and_models_of_the_table_are_the_same_job(
    kvjobs: Kvjobs, database: Database, home: Path
) -> None:
    (home / "kvjobs.toml").write_text('[routes]\n"fr-en" = "tiny-fr-en"\n"en-zh" = "demo-en-zh"\n')

    named = kvjobs("submit", "corpus.jsonl", "--model", "tiny-fr-en", "--via-model", "demo-en-zh", "-q")
    found = kvjobs("submit", "corpus.jsonl", "--source-language", "fr", "--via", "en", "--target-language", "zh", "-q")

    assert (named.out, found.out) == ("1\n", "1\n"), named.err + found.err
    assert legs(database, 1) == [("tiny-fr-en", "fr", None), ("demo-en-zh", "en", None)]
    shown = kvjobs("show", 1).out
    assert re.search(r"model +tiny-fr-en \(revision \w{12}\), then demo-en-zh \(revision \w{12}\) \(via en\)\n", shown)
    assert "routes" not in shown
    routes = next(row for row in kvjobs("config", "--json").json if row["name"] == "routes")
    assert json.loads(routes["value"]) == {"fr-en": "tiny-fr-en", "en-zh": "demo-en-zh"}


def test_a_model_of_several_languages_is_told_its_own(kvjobs: Kvjobs, database: Database) -> None:
    """It may be both models."""
    options = ("--model", "tiny-mul", "--source-language", "fr", "--via", "eng")

    done = kvjobs("submit", "corpus.jsonl", *options, "--via-model", "tiny-mul", "--target-language", "deu")

    assert done.exit_code == 0, done.err
    assert legs(database, 1) == [("tiny-mul", "fr", "eng"), ("tiny-mul", "eng", "deu")]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--via-model", "demo-en-zh"], 2, "name the first with --model"),
        (["--model", "tiny-fr-en", "--via-model", "demo-en-zh", "--alignments"], 2, "--alignments is of one model"),
        (["--model", "tiny-fr-en", "--via", "en"], 2, "give --target-language"),
        (["--via", "en", "--target-language", "zh", "--source-language", "fr"], 2, r"has no fr-en; it is empty"),
        (["--model", "nowhere-fr-en", "--via-model", "demo-en-zh"], 5, "nowhere-fr-en"),
        (["--model", "demo-lm", "--via-model", "demo-en-zh"], 2, "demo-lm: the task translate needs a translation"),
        (["--model", "tiny-fr-en", "--via-model", "demo-en-de"], 5, "demo-en-de"),
        (
            ["--model", "tiny-fr-en", "--via", "en", "--via-model", "tiny-mul", "--target-language", "fra"],
            2,
            "tiny-mul: this model has no target language 'fra'",
        ),
        (
            ["--model", "tiny-fr-en", "--via", "en", "--via-model", "tiny-mul"],
            2,
            "tiny-mul: .* several target lang",
        ),
        (
            ["--model", "tiny-fr-en", "--via-model", "demo-en-zh", "--n-best", "2"],
            2,
            "demo-en-zh: n_best is 2, and a search with the model's own settings keeps 1",
        ),
        (
            ["--model", "tiny-fr-en", "--via-model", "demo-en-zh", "--providers", "openai"],
            2,
            "openai cannot do this job: it translates with one model",
        ),
        (["--task", "score", "--via", "en"], 2, "--via is for --task translate, and the task is score"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    kvjobs: Kvjobs, database: Database, arguments: list[str], code: int, says: str
) -> None:
    refused = kvjobs("submit", "corpus.jsonl", *arguments)

    assert (refused.exit_code, refused.out) == (code, ""), refused.err
    assert re.search(says, refused.err), refused.err
    assert kvjobs("ls", "--all", "-q").out == ""


def test_another_provider_is_skipped_with_the_reason(kvjobs: Kvjobs, database: Database) -> None:
    options = ("--model", "tiny-fr-en", "--via-model", "demo-en-zh", "--providers", "openai,onnx")

    done = kvjobs("submit", "corpus.jsonl", *options)

    assert done.exit_code == 0
    assert line_with(done.err, "openai is skipped", "one model", "routes")


def test_a_dry_run_counts_what_the_first_model_reads(kvjobs: Kvjobs, database: Database) -> None:
    plain = kvjobs("submit", "corpus.jsonl", "--model", "tiny-fr-en", "--dry-run", "--json").json
    both = kvjobs(
        "submit", "corpus.jsonl", "--model", "tiny-fr-en", "--via-model", "demo-en-zh", "--dry-run", "--json"
    ).json

    counted: Any = ("documents", "tokens", "segments", "longest")
    assert [both[name] for name in counted] == [plain[name] for name in counted]
    assert both["model"] == "tiny-fr-en+demo-en-zh"


# --model auto


TABLE = '[routes]\n"en-zh" = "demo-en-zh"\n"fr-zh" = ["tiny-fr-en", "demo-en-zh"]\n"de-zh" = "nowhere"\n'
BY_LANGUAGE = ("submit", "mixed.jsonl", "--model", "auto", "--target-language", "zh")


@pytest.fixture
def mixed(home: Path, tmp_path: Path) -> None:
    """Documents of four languages, of which one has no route and one a route without a model."""
    (home / "kvjobs.toml").write_text(TABLE)
    lines = ({"id": at, "text": "rain in the hills", "lang": lang} for at, lang in enumerate(["en", "fr", "sw", "de"]))
    (tmp_path / "mixed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.usefixtures("mixed")
def test_each_language_has_its_route_and_a_route_without_a_model_is_left_out(
    kvjobs: Kvjobs, database: Database
) -> None:
    done = kvjobs(*BY_LANGUAGE)

    assert done.exit_code == 0, done.err
    assert line_with(done.err, "route from de ", "'nowhere'")
    assert line_with(done.err, "Job 1: ", "4 documents", "2 of them")
    rows = kvjobs("query", "select id, route, error_code from v_documents order by line", "--json").json
    assert [(row["id"], row["route"], row["error_code"]) for row in rows] == [
        ("0", "en", None),
        ("1", "fr", None),
        ("2", None, "no-route"),
        ("3", None, "no-route"),
    ]
    shown = kvjobs("show", 1).out
    assert re.search(r"model +en: demo-en-zh \(revision \w+\); fr: tiny-fr-en \(revision \w+\), then demo-en-zh", shown)
    assert line_with(shown, "line 3 (id 2): ", "'sw'", "zh ", "en, fr")


@pytest.mark.usefixtures("mixed")
def test_a_corpus_is_refused_at_submit_with_the_lines_that_have_no_route(kvjobs: Kvjobs, database: Database) -> None:
    refused = kvjobs(*BY_LANGUAGE, "--strict")
    listed = kvjobs(*BY_LANGUAGE, "--dry-run", "--json").json

    assert refused.exit_code == 2
    assert line_with(refused.err, "2 of 4 ", "read")
    assert re.search(r"line 3: no route .* from 'sw'.*\n  line 4: no route .* from 'de'", refused.err)
    assert [one["line"] for one in listed["rejected_lines"]] == [3, 4]
    assert (listed["documents"], listed["model"]) == (4, "auto")
    assert kvjobs("ls", "--all", "-q").out == ""


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "auto"], "give --target-language as well"),
        (["--model", "auto", "--target-language", "it"], "no pair that ends in it; its pairs are de-zh, en-zh, fr-zh"),
        (["--model", "auto", "--target-language", "zh", "--via", "en"], "--via and --model auto exclude each other"),
        (["--model", "demo-en-zh", "--language-field", "l"], "--language-field is for --model auto"),
        (["--model", "auto", "--target-language", "zh", "--language-field", "l"], "no language in the field 'l'"),
        (["--model", "auto", "--target-language", "zh", "--n-best", "9"], "n_best is 9"),
    ],
)
def test_what_cannot_be_routed_is_one_sentence(
    kvjobs: Kvjobs, database: Database, arguments: list[str], says: str
) -> None:
    refused = kvjobs("submit", "mixed.jsonl", *arguments)

    assert (refused.exit_code, refused.out) == (2, ""), refused.err
    assert says in refused.err


@pytest.mark.usefixtures("mixed")
def test_a_language_for_documents_without_one_and_another_field(kvjobs: Kvjobs, database: Database) -> None:
    done = kvjobs(*BY_LANGUAGE, "--language-field", "l", "--source-language", "fr")

    assert done.exit_code == 0, done.err
    routes = kvjobs("query", "select distinct route from v_documents", "--json").json
    assert routes == [{"route": "fr"}]

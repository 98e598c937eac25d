"""The command of a stored job makes the same job."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.cli.commands.submit import submit
from jobs.cli.submit_options import SubmitOptions
from jobs.corpus.corpus import UPLOAD, Corpus
from jobs.corpus.openai.request_kind import RequestKind
from jobs.corpus.openai.requests import Requests
from jobs.spec import JobSpec
from jobs.submission.job_options import SubmitRequest
from jobs.submit_command import StoredSubmit, submit_command
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kind import PayloadKind
from jobs.tasks.kinds import Options
from jobs.tasks.rerank import Method, RerankOptions
from jobs.tasks.score import SOURCE_FIELD, TARGET_FIELD, Bos, ScoreOptions, Window
from jobs.tasks.shared_options import TEXT_FIELD, CachePolicy, Timing
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.rows import PIVOT, PIVOT_COLUMNS

JSONL = Corpus(path="/data/corpus.jsonl").reading
BEIR_READING = '{"format": "beir", "holds": "candidates"}'


def stored(task: Task, options: Options, **columns: Any) -> StoredSubmit:
    spec = JobSpec(task=task, model="m", model_revision="r", options=options)
    job = StoredSubmit(
        task=task,
        model="m",
        model_revision="r",
        options=spec.options_json(),
        providers=None,
        source="/data/corpus.jsonl",
        reading=JSONL,
        priority=0,
        queue="cpu",
    )
    return replace(job, **columns)


def parsed(command: str | None) -> tuple[str, SubmitRequest, Options]:
    """The corpus and the options as `kvjobs submit` reads them."""
    assert command
    program, name, *arguments = shlex.split(command)
    assert (program, name) == ("kvjobs", "submit")
    helping = {"help_option_names": ["-h", "--help"]}  # those of `kvjobs`: click caches the help option it makes first
    with submit.make_context("submit", arguments, **helping) as context:
        options = SubmitOptions.of(context.params)
        return options.corpus, options.request, options.request.read_task_options()


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (Task.TRANSLATE, TranslateOptions()),
        (Task.TRANSLATE, TranslateOptions(beam_size=4, n_best=2, length_penalty=0.6, max_new_tokens=9)),
        (Task.TRANSLATE, TranslateOptions(allow_pad=True, source_language="de", target_language="fra")),
        (Task.TRANSLATE, TranslateOptions(cache=CachePolicy("hybrid", 8), batch_size=3, reuse=False)),
        (Task.TRANSLATE, TranslateOptions(cache=CachePolicy("off"), timing=Timing.BATCHES)),
        (Task.SCORE, ScoreOptions(window=Window.TRUNCATE, bos=Bos.EOS, token_scores=True)),
        (Task.SCORE, ScoreOptions(max_length=64, stride=16, packing=False, reuse=False, timing=Timing.OFF)),
        (Task.RERANK, RerankOptions(method=Method.PERPLEXITY, template="q {query} d {document}", fusion=0.25)),
        (Task.RERANK, RerankOptions(prefix_cache=False, max_length=128)),
    ],
)
def test_the_command_of_a_job_has_the_options_of_the_job(task: Task, options: Options) -> None:
    corpus, made, of_task = parsed(submit_command(stored(task, options)))

    assert of_task == options
    assert (made.job.task, made.job.model, corpus, made.job.again) == (task, "m", "/data/corpus.jsonl", True)


@pytest.mark.parametrize(
    "corpus",
    [
        Corpus(path="/data/corpus.jsonl", id_field="key", text_field="body"),
        Corpus(path="/data/corpus.txt.gz"),
        Corpus(path="/data/odd name's.data", format="csv", delimiter=";"),
        Corpus(path="/data/corpus.tsv", delimiter="|"),
        Corpus(path="-", format="txt"),
        Corpus(path="/data/a.csv", columns=("id", "a, b", "text"), encoding="latin-1"),
        Corpus(path="/data/a.jsonl", text_field="translation.en", max_line_bytes=1 << 20, in_windows=True),
        Corpus(path="/data/p.jsonl", payload_kind=PayloadKind.PAIRS, source_field="en", target_field="de"),
    ],
)
def test_the_command_of_a_job_reads_the_corpus_as_the_job_did(corpus: Corpus) -> None:
    command = submit_command(stored(Task.SCORE, ScoreOptions(), source=corpus.source, reading=corpus.reading))
    path, made, _ = parsed((command or "").removesuffix(" < CORPUS"))

    fields = {option.name: made.value(option) for option in (TEXT_FIELD, SOURCE_FIELD, TARGET_FIELD)}
    again = Corpus(
        path=path,
        format=made.job.format,
        delimiter=made.job.delimiter,
        columns=made.job.columns,
        encoding=made.job.encoding,
        max_line_bytes=made.job.max_text,
        in_windows=corpus.in_windows,
        id_field=made.job.id_field,
        payload_kind=corpus.payload_kind,
        **fields,
    )
    assert (again.source, again.reading) == (corpus.source, corpus.reading)


def test_the_command_of_a_chat_names_the_field_of_its_texts_alone() -> None:
    corpus = Corpus(path="/data/chat.jsonl", payload_kind=PayloadKind.MESSAGES, text_field="body")
    chat = stored(Task.GENERATE, GenerateOptions(chat=True), source=corpus.source, reading=corpus.reading)

    _, made, options = parsed(submit_command(chat))

    assert options == GenerateOptions(chat=True)
    assert made.of_task["text_field"] == "body"


def test_a_pipe_is_to_be_sent_again() -> None:
    command = submit_command(stored(Task.TRANSLATE, TranslateOptions(), source="standard input"))

    assert command == "kvjobs submit - --task translate --model m --again < CORPUS"


def test_an_address_is_named_again_and_one_with_secrets_has_to_be_put_in() -> None:
    for url in (
        "https://user:SECRET@host/a.csv.gz",
        "https://host/a.csv.gz?X-Amz-Signature=SECRET",
        "https://host/a.csv.gz",
    ):
        corpus = Corpus(path=url)
        command = submit_command(
            stored(Task.TRANSLATE, TranslateOptions(), source=corpus.source, reading=corpus.reading)
        )
        named, made, _ = parsed(command)
        assert "SECRET" not in f"{corpus.source} {corpus.reading} {command}"
        assert (named, made.job.format) == ("ADDRESS" if "SECRET" in url else url, None)
        assert corpus.is_file == ("SECRET" not in url)
    run = stored(
        Task.RERANK, RerankOptions(), source="https://host/a.run?*** over s3://bucket/set/", reading=BEIR_READING
    )
    named, made, _ = parsed(submit_command(run))
    assert (named, made.of_task["run"]) == ("s3://bucket/set/", "ADDRESS")


def test_a_run_and_its_folder_are_two_arguments() -> None:
    source = "/r/bm25.run over /beir/set"
    corpus, made, _ = parsed(submit_command(stored(Task.RERANK, RerankOptions(), source=source, reading=BEIR_READING)))

    assert (corpus, made.of_task["run"]) == ("/beir/set", "/r/bm25.run")


def test_queue_and_priority_are_named_where_they_are_not_the_usual_ones() -> None:
    _, made, _ = parsed(submit_command(stored(Task.TRANSLATE, TranslateOptions(), queue="gpu", priority=-10)))

    assert (made.job.queue, made.job.priority) == ("gpu", -10)


def test_a_job_of_a_newer_version_has_no_command() -> None:
    assert submit_command(replace(stored(Task.TRANSLATE, TranslateOptions()), options='{"dreams":true}')) is None


def test_a_job_of_an_older_version_did_not_store_how_its_corpus_is_read() -> None:
    command = submit_command(stored(Task.TRANSLATE, TranslateOptions(), reading=None))

    assert command == "kvjobs submit /data/corpus.jsonl --task translate --model m --again"


def test_a_folder_is_named_with_its_format_only_where_that_was_said(tmp_path: Path) -> None:
    (tmp_path / "part-1.jsonl").touch()
    for given in (None, "jsonl"):
        reading = Corpus(path=tmp_path, format=given).reading

        command = submit_command(
            stored(Task.TRANSLATE, TranslateOptions(), source=f"{tmp_path}/*.jsonl", reading=reading)
        )

        corpus, made, _ = parsed(command)
        assert (corpus, made.job.format) == (f"{tmp_path}/*.jsonl", given)


def test_the_two_models_of_a_way_through_a_language_are_named() -> None:
    options = replace(PIVOT_COLUMNS["options"], beam_size=4)

    command = submit_command(stored(Task.TRANSLATE, options, model=PIVOT.models))

    _, asked, _options = parsed(command)
    assert (asked.job.model, asked.of_task["via"], asked.of_task["via_model"]) == (
        "opus-mt-fr-en",
        "en",
        "opus-mt-en-de",
    )
    assert (asked.of_task["source_language"], asked.of_task["beam_size"]) == ("fr", 4)


def test_the_lines_that_may_be_rejected_are_named_again() -> None:
    reading = json.dumps(json.loads(JSONL) | {"max_rejected": "0.5%"})
    _, made, _ = parsed(submit_command(stored(Task.TRANSLATE, TranslateOptions(), reading=reading)))

    assert str(made.job.max_rejected) == "0.5%"


@pytest.mark.parametrize("model", [None, "m"])
def test_the_command_of_a_batch_file_names_the_model_that_the_first_command_named(model: str | None) -> None:
    requests = Requests(kind=RequestKind.COMPLETION, model=model)
    reading = Corpus(path="/data/corpus.jsonl", payload_kind=PayloadKind.MESSAGES, requests=requests).reading
    options = GenerateOptions(max_new_tokens=16, own_options=True)

    _, made, of_task = parsed(submit_command(stored(Task.GENERATE, options, reading=reading)))

    assert (made.job.format, made.job.model, made.job.id_field) == ("openai", None if model else "m", "id")
    assert of_task == replace(options, own_options=False)  # a submit of a batch file sets it


@pytest.mark.parametrize(("units", "path"), [({}, "FOLDER"), ({"one": True, "name": "app.po"}, "app.po")])
def test_files_that_were_sent_are_named_by_what_they_are(units: dict[str, object], path: str) -> None:
    reading = json.dumps(json.loads(JSONL) | {"format": "files", "files": True, "any_name": True, "units": units})

    command = submit_command(replace(stored(Task.TRANSLATE, TranslateOptions(), reading=reading), source=UPLOAD))

    assert command is not None
    assert command.startswith(f"kvjobs submit {path} ")
    assert "< CORPUS" not in command

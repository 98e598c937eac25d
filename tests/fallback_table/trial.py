"""One row of the fallback table, tried: a job is submitted, its first provider fails, and a real lane drains it."""

import contextlib
import functools
import itertools
import json
import re
import shutil
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bench.checkpoints.gguf_file import write_gguf
from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.providers import ProviderOrder
from jobs.settings import Settings
from jobs.spec import JobSpec
from jobs.store.database import Database
from jobs.store.report.recount.consistency_check import find_contradictions
from jobs.store.schema.provider_tables import HandoverCounts, JobProvider, ProviderChange
from jobs.store.schema.results import RESULTS
from jobs.store.schema.tables import Document, Job
from jobs.tasks.generate import GenerateOptions
from jobs.tasks.kinds import Options
from jobs.tasks.rerank import RerankOptions
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from jobs.tasks.translate import TranslateOptions
from tests.causal_checkpoints import write_causal_checkpoint
from tests.fallback_table.fault import DOCUMENTS, LLAMACPP, PLACES, TEXTS, Fault, query_about
from tests.places import TESTS
from tests.rows import insert_waiting_job
from tests.scripted_api import says, serving
from worker.drain import drain
from worker.lane import Lane
from worker.model_tools import provider_admission
from worker.model_tools.add.add import Request, add_model
from worker.model_tools.admission import admit
from worker.model_tools.provider_admission import admit_order
from worker.models.registry import find_model
from worker.process.lease_keeper import LeaseKeeper
from worker.providers import circuit_breaker, fallback
from worker.providers.http import client
from worker.providers.registry import Providers

KEY = "sk-never-shown"
MODELS = {Task.TRANSLATE: "demo-en-zh", Task.SCORE: "demo-lm", Task.RERANK: "demo-lm", Task.GENERATE: "demo-lm"}
OPTIONS: dict[Task, Options] = {
    Task.TRANSLATE: TranslateOptions(reuse=False),
    Task.SCORE: ScoreOptions(reuse=False),
    Task.RERANK: RerankOptions(),
    Task.GENERATE: GenerateOptions(max_new_tokens=4),
}
TIMEOUT_S = 0.2
SHORTENED = {
    r"\[SSL[^|]*?\(_ssl\.c:\d+\)": "…",  # OpenSSL's own words
    r"'llama-cpp-python[^']*'": "'llama-cpp-python…'",
    r"; known: .*? makes a model": " …",
    r"( is not JSON: [^|]{40})[^|]*": r"\1… ",
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a job's rows say after it."""

    state: str
    answered: dict[str, int]  # results by provider
    results: list[Any]  # the rows, by position
    counted: dict[str, int]  # the same, of job_providers
    handed_over: dict[str, dict[str, tuple[int, str]]]  # documents and sentence by code, by provider
    skipped: dict[str, str]
    changes: list[tuple[str, str | None, str, int]]  # provider, next provider, code, documents
    failed: list[tuple[str, str]]  # code and message of each failed document
    contradictions: list[str]


def _admit_once(task: Task, name: str | None, models_dir: Path, options: Options) -> JobSpec:
    if name not in MODELS.values():
        return admit(task, name, models_dir, options)
    return _admit_bundled(task, name, options)


@functools.cache
def _admit_bundled(task: Task, name: str, options: Options) -> JobSpec:
    return admit(task, name, Path("nowhere"), options)


@contextlib.contextmanager
def quickly(pause_s: float = 0.0) -> Iterator[None]:
    """Nothing waits: neither between two attempts of a request, nor for a provider that is the last one. Names are
    resolved without the network, and a bundled model is checked once."""

    def resolve(host: Any, *arguments: Any, **named: Any) -> Any:
        if str(host if isinstance(host, str) else host.decode()).endswith(".invalid"):
            raise socket.gaierror(-2, "Name or service not known")
        return resolved(host, *arguments, **named)

    resolved = socket.getaddrinfo
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider_admission, "admit", _admit_once)
        patch.setattr(client, "FIRST_PAUSE_S", 0.0)
        patch.setattr(fallback, "LONGEST_WAIT_S", 0.0)
        patch.setattr(circuit_breaker, "FIRST_PAUSE_S", pause_s)
        patch.setattr(socket, "getaddrinfo", resolve)
        yield


def write_models(folder: Path) -> Path:
    """A folder of models that a fault may damage: `lm`, `own-en-zh`, and the GGUF file `quantized`."""
    models = folder / "models"
    shutil.copytree(find_model("demo-lm", models).path, models / "lm")
    manifest = models / "lm" / "kvjobs.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"source": "someone/lm"}))
    shutil.copytree(find_model("demo-en-zh", models).path, models / "own-en-zh")
    file = folder / "quantized.gguf"
    write_gguf(write_causal_checkpoint(folder / "checkpoint", "llama", ffn=64), file, "q8_0", pre="gpt-2")
    add_model(Request(source=str(file), keep_gguf=True), models)
    return models


def try_out(fault: Fault, folder: Path, database: Database, own_models: Path) -> Recorded:
    """Submit a job and drain it while its first provider fails. `folder` is that of the worker; `own_models` are
    those of `write_models`."""
    models = folder / "models"
    shutil.rmtree(models, ignore_errors=True)
    if fault.model or fault.order == LLAMACPP:
        shutil.copytree(own_models, models)
    with quickly(fault.pause_s), pytest.MonkeyPatch.context() as patch, _server(fault) as settings:
        arguments = WorkerArguments(Settings(home=folder, models_dir=models, **settings))
        spec = _spec(fault, arguments.settings)
        job = insert_job(database, spec, fault.task, per_batch=fault.per_batch)
        fault.prepare(patch, models)
        drain_all(database, arguments, spec.providers)
    return recorded(database, job, fault.task)


def insert_job(database: Database, spec: JobSpec, task: Task, *, per_batch: int = DOCUMENTS) -> int:
    """A job of 8 documents."""
    job = insert_waiting_job(
        database, DOCUMENTS, per_batch, spec=spec, model=spec.model, model_revision=spec.model_revision
    )
    texts = [query_about(place) for place in PLACES] if task is Task.RERANK else TEXTS
    if isinstance(spec.options, GenerateOptions) and spec.options.chat:
        texts = [json.dumps({"text": text}) for text in TEXTS]
    with database.writing() as connection:
        for position, text in enumerate(texts):
            row = (Document.job_id == job, Document.position == position)
            connection.execute(update(Document).where(*row).values(text=text))
    return job


def drain_all(database: Database, arguments: WorkerArguments, order: ProviderOrder) -> None:
    """One lane works until no shard is ready."""
    providers = Providers(arguments)
    drain(database, Lane(0, providers), LeaseKeeper(database, 1, lease_s=60.0, heartbeat_s=60.0))
    for choice in order.usable:
        close = getattr(providers.get(choice.name), "close", lambda: None)  # of servers
        close()


def recorded(database: Database, job: int, task: Task) -> Recorded:
    """What the tables say of a job."""
    result, document = RESULTS[task], Document
    with database.reading() as connection:

        def rows(*columns: Any, of: Any) -> list[Any]:
            primary_key = of.__table__.primary_key.columns
            return list(connection.execute(select(*columns).where(of.job_id == job).order_by(*primary_key)).all())

        handovers = rows(HandoverCounts.__table__, of=HandoverCounts)
        listed = rows(JobProvider.__table__, of=JobProvider)
        change = ProviderChange
        results = rows(result.__table__, of=result)
        return Recorded(
            state=connection.execute(select(Job.state).where(Job.id == job)).scalar_one(),
            answered=dict(Counter(row.provider for row in results)),
            results=results,
            counted={row.provider: row.documents for row in listed},
            handed_over={
                name: {row.code: (row.documents, row.reason) for row in of}
                for name, of in itertools.groupby(handovers, key=lambda row: row.provider)
            },
            skipped={row.provider: row.skipped for row in listed if row.skipped},
            changes=[
                tuple(row)
                for row in rows(change.provider, change.next_provider, change.code, change.documents, of=change)
            ],
            failed=[tuple(row) for row in rows(document.error_code, document.error, of=document) if row[0]],
            contradictions=find_contradictions(connection, job),
        )


def sentence(text: str, folder: Path) -> str:
    """A recorded sentence as the page shows it: shortened, and without what differs from machine to machine."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text.replace(str(folder), "…"))
    for pattern, shown in SHORTENED.items():
        text = re.sub(pattern, shown, text)
    return text


@contextlib.contextmanager
def _server(fault: Fault) -> Iterator[dict[str, Any]]:
    """The settings of a worker whose server behaves as the fault says."""
    patience_s = TIMEOUT_S if fault.code == "timeout" else 30.0  # so that a slow machine changes no other row
    tls = None
    if fault.tls:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(TESTS / "self_signed.pem")
    with serving(*(fault.server or [says({}, 500)]), tls=tls) as api:
        host = f"http://127.0.0.1:{api.port}"
        place = f"127.0.0.1:{api.port}"
        own = {
            name: value.format(host=place) if isinstance(value, str) else value
            for name, value in fault.settings.items()
        }
        yield {
            "openai_base_url": f"{host}/v1",
            "openai_api_key": KEY,
            "openai_timeout_s": patience_s,
            "openai_concurrency": 1,
            "ollama_host": host,
            "ollama_timeout_s": patience_s,
            "ollama_concurrency": 1,
        } | own


def _spec(fault: Fault, settings: Settings) -> JobSpec:
    """As `kvjobs submit` makes it."""
    model, order = fault.model or MODELS[fault.task], ProviderOrder.parse(fault.order)
    options = OPTIONS[fault.task]
    if isinstance(options, GenerateOptions):
        options = replace(options, chat=fault.chat)
    return admit_order(fault.task, model, options, order, settings, fallback=fault.fallback)

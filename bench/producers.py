"""How fast a program gets a job and its results: `import kvjobs`, on this machine or over HTTP.

    python -m bench.producers submit [--documents 1000000] [--through file python http] [--json]
    python -m bench.producers open [--threads 8] [--per-second 2000] [--seconds 20] [--json]
    python -m bench.producers call [--calls 30] [--json]
    python -m bench.producers batches [--documents 50000] [--json]

`submit`: the same rows as a file, as dicts from a generator (and how long that takes alone), and as a file over HTTP,
each into a fresh SQLite database, by a process of its own; of HTTP also the server's processor time and peak memory.
`open`: threads add single documents to an open job; how long an `add` takes, and from the first one to its result.
`call`: `kvjobs.translate` of one sentence, the first call and the later ones, each of another sentence. `batches`:
requests as a batch of OpenAI's client, and the same texts as a corpus, until the results are there; a server and a
worker each.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import httpx2

import kvjobs
from bench.submit import make_lines
from tests.integration.conftest import free_port
from tools.demo.examples import lines

MODEL = "demo-en-zh"
WARM_UP_S = 60.0


def main() -> None:
    main_parser = argparse.ArgumentParser(description="How fast a program gets a job and its results.")
    kinds = main_parser.add_subparsers(dest="kind", required=True)
    submit = kinds.add_parser("submit")
    submit.add_argument("--documents", type=int, default=1_000_000)
    submit.add_argument("--through", nargs="+", choices=[*WAYS], default=[*WAYS])
    opened = kinds.add_parser("open")
    opened.add_argument("--threads", type=int, default=8)
    opened.add_argument("--per-second", type=int, default=2000)
    opened.add_argument("--seconds", type=int, default=20)
    call = kinds.add_parser("call")
    call.add_argument("--calls", type=int, default=30)
    batch = kinds.add_parser("batches")
    batch.add_argument("--documents", type=int, default=50_000)
    for parser in (submit, opened, call, batch):
        parser.add_argument("--json", action="store_true")
    arguments = main_parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for result in KINDS[arguments.kind](arguments, Path(name)):
            result["load"] = round(os.getloadavg()[0], 1)
            if arguments.json:
                print(json.dumps(result), flush=True)
            else:
                print(
                    "  ".join(f"{key} {value:,}" if type(value) is not str else value for key, value in result.items())
                )


def submit_ways(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """The rows, submitted in each way."""
    corpus = folder / "corpus.jsonl"
    with corpus.open("w", encoding="utf-8") as file:
        file.writelines(make_lines(arguments.documents, "sequential", 0.0))
    for way in arguments.through:
        home = folder / way
        home.mkdir()
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool.submit(submit_through, way, corpus, home).result()


def submit_through(way: str, corpus: Path, home: Path) -> dict[str, Any]:
    """Submit once; documents per second of the clock and of this process's processor time, and its peak memory."""
    more: dict[str, Any] = {}
    server = Server(home) if way == "http" else None
    try:
        address = server.address if server else None
        with kvjobs.connect(address) if address else kvjobs.connect(home=str(home)) as kv:
            kv.submit([{"id": "w", "text": "Snow."}], model=MODEL)  # loads what a submit needs
            if way == "python":
                started = time.perf_counter()
                for _ in dicts(corpus):
                    pass
                more["generator_s"] = round(time.perf_counter() - started, 2)
            rows = dicts(corpus) if way == "python" else corpus
            started, cpu_started = time.perf_counter(), time.process_time()
            job = kv.submit(rows, model=MODEL)
            seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
        if server:
            more |= {"server_peak_mb": server.peak_mb(), "server_cpu_s": server.cpu_s()}
    finally:
        if server:
            server.end()
    documents = job.info["documents"]
    return {
        "way": way,
        "documents": documents,
        "documents_per_s": round(documents / seconds),
        "cpu_s": round(cpu_s, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        **more,
    }


def dicts(corpus: Path) -> Iterator[dict[str, Any]]:
    """The rows as a program has them."""
    with corpus.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


class Server:
    """`kvjobs web` in a process of its own."""

    def __init__(self, home: Path) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self._process = _process(home, "web", "--port", str(port))
        deadline = time.monotonic() + WARM_UP_S
        while time.monotonic() < deadline:
            try:
                kvjobs.connect(self.address).models()
            except kvjobs.KvjobsError:
                time.sleep(0.2)
            else:
                return
        raise SystemExit("kvjobs web does not answer")

    def peak_mb(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM"))

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 2)

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def _process(home: Path, *command: str) -> "subprocess.Popen[bytes]":
    """`kvjobs COMMAND` with a home of its own, silent."""
    return subprocess.Popen(
        [sys.executable, "-m", "jobs.cli.main", *command],
        env={**os.environ, "KVJOBS_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _sentences(number: int) -> list[str]:
    """First sentences of bulletins."""
    return [json.loads(line)["text"].partition(". ")[0] + "." for line in lines(number, seed=3, references=False)]


def open_job(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Threads add single documents at a rate; how soon results come."""
    short = _sentences(200)
    with kvjobs.connect(home=str(folder)) as kv:
        kv.translate(["Snow."], model=MODEL)
        took: list[float] = []
        first: list[float] = []
        with kv.open(model=MODEL) as job:
            began = time.monotonic()
            per_thread = arguments.per_second / arguments.threads

            def produce(number: int) -> None:
                for count in range(int(per_thread * arguments.seconds)):
                    due = began + count / per_thread
                    if (left := due - time.monotonic()) > 0:
                        time.sleep(left)
                    started = time.monotonic()
                    document = job.add(f"{number}-{count}: {short[count % len(short)]}", id=f"{number}-{count}")
                    took.append(time.monotonic() - started)
                    if not first and not number:
                        job.result(document, timeout=30)
                        first.append(time.monotonic() - started)

            threads = [threading.Thread(target=produce, args=(number,)) for number in range(arguments.threads)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            added_s = time.monotonic() - began
            job.flush()
            flushed_s = time.monotonic() - began
        info = job.refresh().info
        yield {
            "added": len(took),
            "added_per_s": round(len(took) / added_s),
            "add_p50_ms": round(1000 * statistics.median(took), 3),
            "add_p99_ms": round(1000 * statistics.quantiles(took, n=100)[98], 3),
            "first_result_s": round(first[0], 3),
            "last_in_database_s": round(flushed_s - added_s, 3),
            "documents": info["documents"],
            "finished_meanwhile": info["done"],
        }
        job.cancel()


def calls(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """One sentence in one call."""
    texts = [
        json.loads(line)["text"].partition(". ")[0] + "." for line in lines(arguments.calls, seed=4, references=False)
    ]
    with kvjobs.connect(home=str(folder)) as kv:
        seconds = []
        for number, text in enumerate(texts):
            started = time.perf_counter()
            kv.translate([f"{text} {number}"], model=MODEL)
            seconds.append(time.perf_counter() - started)
        warm = sorted(seconds[1:])
        yield {
            "cold_s": round(seconds[0], 3),
            "warm_p50_ms": round(1000 * statistics.median(warm), 1),
            "warm_best_ms": round(1000 * warm[0], 1),
            "warm_p90_ms": round(1000 * statistics.quantiles(warm, n=10)[8], 1),
        }


def batches(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Requests as a batch of OpenAI's client, and their texts as a corpus: until the results are there."""
    texts = [f"{text} {number}" for number, text in zip(range(arguments.documents), itertools.cycle(_sentences(200)))]
    for way in ("corpus", "batch"):
        (home := folder / way).mkdir()
        server, worker = Server(home), _process(home, "worker")
        try:
            started = time.perf_counter()
            number = _as_batch(server.address, texts) if way == "batch" else _as_corpus(server.address, texts)
            seconds = time.perf_counter() - started
            yield {"way": way, "results": number, "seconds": round(seconds, 1), "per_s": round(number / seconds)}
        finally:
            worker.terminate()
            worker.wait()
            server.end()


def _as_corpus(address: str, texts: list[str]) -> int:
    with kvjobs.connect(address) as kv:
        job = kv.submit(({"id": str(number), "text": text} for number, text in enumerate(texts)), model=MODEL)
        return sum(1 for result in job.wait().results() if result["status"] == "ok")


def _as_batch(address: str, texts: list[str]) -> int:
    lines = (
        json.dumps(
            {
                "custom_id": str(number),
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": MODEL, "messages": [{"role": "user", "content": text}]},
            }
        )
        for number, text in enumerate(texts)
    )
    content = "\n".join(lines).encode()
    with httpx2.Client(base_url=f"{address}/v1", timeout=600) as http:
        form = {"purpose": "batch"}
        file = http.post("/files", data=form, files={"file": ("batch.jsonl", content)}).raise_for_status().json()
        asked = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        batch = http.post("/batches", json=asked).raise_for_status().json()
        while batch["status"] not in ("completed", "failed", "expired", "cancelled"):
            time.sleep(0.5)
            batch = http.get(f"/batches/{batch['id']}").raise_for_status().json()
        output = http.get(f"/files/{batch['output_file_id']}/content").raise_for_status().content
        return sum(1 for line in output.splitlines() if json.loads(line)["response"]["status_code"] == 200)


WAYS = ("file", "python", "http")
KINDS = {"submit": submit_ways, "open": open_job, "call": calls, "batches": batches}

if __name__ == "__main__":
    main()

"""Faults of a provider's server, and of the workers that ask it: both are killed in mid-job, again and again."""

import json
import subprocess
import sys
import time

from sqlalchemy import func, select

from jobs.store.schema.provider_tables import JobProvider, ProviderChange
from jobs.store.schema.result_tables import Translation
from tests.faults.invariants import find_violations
from tests.faults.servers import free_port
from tests.faults.trial import Trial
from tests.places import CHECKOUT

KILLS = 10
DELAY_S = 0.15  # of an answer: long enough for ten kills in one job
SHORT_S, LONG_S = 0.2, 4.5  # that the server is away: shorter and longer than the attempts of one request


class ChatServer:
    """A chat server in a process of its own, at the same address after every restart."""

    def __init__(self, trial: Trial) -> None:
        self.port = free_port()
        self.log = trial.folder / "asked"
        self._answers = trial.folder / "answers.json"
        texts = {line["id"]: line["text"] for line in _lines(trial.corpus.path.read_bytes())}
        answers = {texts[line["id"]]: line["translation"] for line in _lines(trial.corpus.baseline())}
        self._answers.write_text(json.dumps(answers), encoding="utf-8")
        self.start()

    def start(self) -> None:
        arguments = [str(self.port), str(self._answers), str(DELAY_S), str(self.log)]
        self._process = subprocess.Popen([sys.executable, "-m", "tests.faults.chat_server", *arguments], cwd=CHECKOUT)

    def num_answered(self) -> int:
        """Requests answered so far, by all its processes."""
        return self.log.read_text().count("\n") if self.log.exists() else 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def killed_with_its_workers(trial: Trial) -> None:
    """Ten kills in one job, of the server and of the worker in turn. The server comes back while its requests are still
    tried; the last time it stays away for longer, so that onnx gets the rest."""
    server = ChatServer(trial)
    try:
        trial.environment |= {
            "KVJOBS_OPENAI_BASE_URL": f"http://127.0.0.1:{server.port}/v1",
            "KVJOBS_OPENAI_API_KEY": "for-a-test",
            "KVJOBS_OPENAI_ATTEMPTS": "4",
        }
        trial.submit("--providers", "openai:translator,onnx", "--model", "demo-en-zh")
        trial.keep_workers(1, KVJOBS_LANES="2")
        kills = {"server": 0, "worker": 0}
        while sum(kills.values()) < KILLS and trial.state() == "running":
            before = server.num_answered()
            trial.until(
                lambda before=before: server.num_answered() > before or trial.state() != "running", "work goes on"
            )
            time.sleep(trial.rng.uniform(0.0, 0.2))
            if sum(kills.values()) % 2 == 0:
                (worker,) = trial.restart_ended()
                if child := worker.child():
                    trial.kill(child)
                    kills["worker"] += 1
                    time.sleep(4 * DELAY_S)  # its requests are answered; what the server answers next is another's
            else:
                server.kill()
                trial.fault_ended()
                time.sleep(LONG_S if kills["server"] == KILLS // 2 - 1 else SHORT_S)
                server.start()
                kills["server"] += 1
        trial.until_over()
        trial.expect(sum(kills.values()) == KILLS, f"the job was over after {kills}; give it more documents")
        _check(trial)
        trial.notes.append(f"killed: {kills}; requests answered: {server.num_answered()}")
    finally:
        server.kill()


def _check(trial: Trial) -> None:
    """As `Trial.check`, with translations alone compared: log-probabilities and providers differ by who answered."""
    exported = trial.kvjobs("export", str(trial.job_id), "-o", "exported.jsonl")
    trial.expect(exported.returncode == 0, f"export ended with {exported.returncode}: {exported.stderr}")
    found = (trial.folder / "exported.jsonl").read_bytes()
    trial.violations += find_violations(
        trial.database, trial.job_id, _texts_alone(found), _texts_alone(trial.corpus.baseline()), deaths=trial.deaths
    )
    provider = Translation.provider
    by_result = select(provider, func.count()).where(Translation.job_id == trial.job_id).group_by(provider)
    counted = select(JobProvider.provider, JobProvider.documents).where(JobProvider.job_id == trial.job_id)
    rows, counts = dict(map(tuple, trial.query(by_result) or [])), dict(map(tuple, trial.query(counted) or []))
    trial.expect(rows == counts, f"results by provider are {rows}, counted are {counts}")
    trial.expect(set(rows) == {"openai", "onnx"}, f"not both providers answered: {rows}")
    changes = trial.query(select(ProviderChange.code).where(ProviderChange.job_id == trial.job_id)) or []
    codes = {code for (code,) in changes}
    trial.expect("unreachable" in codes, f"the changes on record are {sorted(codes)}")
    trial.expect(not trial.logged(r"Traceback"), f"a process printed a traceback:\n{trial.log_tail()}")
    trial.notes.append(f"answered: {rows}")


def _texts_alone(exported: bytes) -> bytes:
    lines = (json.dumps({"id": line["id"], "translation": line.get("translation")}) for line in _lines(exported))
    return "\n".join(lines).encode()


def _lines(content: bytes) -> list[dict[str, str]]:
    return [json.loads(line) for line in content.splitlines()]

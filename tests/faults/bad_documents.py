"""Faults in the corpus: lines that are not documents, and documents that kill the process that works on them."""

import json
from pathlib import Path

from tests.faults.corpus import run_undisturbed
from tests.faults.trial import Trial

POISON = Path(__file__).with_name("poison")  # a sitecustomize that acts on ((segfault)) and the other markers
MARKERS = ("segfault", "exit", "hang", "allocate", "raise", "nan")
BAD = (
    (b'{"id": "one-megabyte", "text": "' + b"x" * (1 << 20) + b'"}\n', "rejected"),
    (b'{"id": "bad-utf-8", "text": "It will rain \xff in Arden."}\n', "rejected"),
    (b'{"id": "empty", "text": ""}\n', "rejected"),
    (b'{"id": "blank", "text": " \\n "}\n', "rejected"),
    (b"no JSON at all\n", "rejected"),
    (b'{"id": "no-text"}\n', "rejected"),
    (b'{"id": "nul", "text": "It will rain\\u0000 in Arden."}\n', "rejected"),
    (b'{"id": "long-word", "text": "' + b"rain" * 5000 + b'"}\n', "ok"),
    ('{"id": "strange", "text": "\\u202e</s> >>fr<< <unk> \U0001f327"}\n'.encode(), "ok"),
)


def bad_lines(trial: Trial) -> None:
    """Lines of a megabyte, in bad UTF-8, without text: only these are rejected, even if a child is killed meanwhile."""
    good = trial.corpus.path.read_bytes().splitlines(keepends=True)
    every = max(1, len(good) // len(BAD))
    mixed = [b"".join([*good[i * every : (i + 1) * every], bad]) for i, (bad, _) in enumerate(BAD)]
    corpus = b"".join([*mixed, *good[len(BAD) * every :]])
    trial.corpus.path.write_bytes(corpus)
    undisturbed = run_undisturbed(corpus).exported
    trial.submit()
    trial.keep_workers(1)
    trial.until_num_ended(10)
    trial.until(lambda: trial.restart_ended()[0].working_child(), "a child works")
    trial.kill(trial.restart_ended()[0].working_child() or 0)
    trial.until_over()
    trial.check(baseline=undisturbed)
    statuses = [json.loads(line)["status"] for line in undisturbed.splitlines()]
    expected = sum(status == "rejected" for _, status in BAD)
    trial.expect(statuses.count("rejected") == expected, f"{statuses.count('rejected')} rejected, not {expected}")
    trial.expect(statuses.count("ok") == len(statuses) - expected, "a good document did not succeed")


def poison(trial: Trial) -> None:
    """Documents that segfault, exit, hang, allocate, raise, or make NaN: only they fail or are quarantined."""
    good = trial.corpus.path.read_bytes().splitlines()
    every = len(good) // (len(MARKERS) + 1)
    poisoned = {}
    for number, marker in enumerate(MARKERS, start=1):
        record = json.loads(good[number * every])
        record["text"] += f" (({marker}))"
        good[number * every] = json.dumps(record).encode()
        poisoned[record["id"]] = marker
    trial.corpus.path.write_bytes(b"\n".join(good) + b"\n")
    trial.environment |= {"PYTHONPATH": trial.python_path(POISON), "KVJOBS_HANG_S": "8", "KVJOBS_LEASE_S": "4"}
    trial.submit()
    trial.keep_workers(1)
    trial.until_over(timeout=600)
    exported = trial.kvjobs("export", str(trial.job_id)).stdout
    trial.check(baseline=exported.encode(), deaths=10**6)  # the tests of the sandbox limit the deaths per document
    expected = {json.loads(line)["id"]: json.loads(line) for line in trial.corpus.baseline().splitlines()}
    for record in map(json.loads, exported.splitlines()):
        if record["id"] in poisoned:
            marker = poisoned[record["id"]]
            ended = record["status"] in ("failed", "quarantined")
            trial.expect(ended, f"the document that does {marker} is {record['status']}")
        else:
            trial.expect(record == expected[record["id"]], f"{record['id']} differs from an undisturbed run")
    trial.notes.append(f"{len(trial.events('lost', 'expired'))} workers and {len(trial.events('died'))} others died")

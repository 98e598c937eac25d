"""Corpora that are datasets on the Hugging Face hub, from a server in its place. In a process of its own, since the
library reads the address of the hub once."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.hub import COMMIT, fake_hub
from tests.places import CHECKOUT

READ_ALL = """
import json, sys
from jobs.corpus.corpus import Corpus
from jobs.corpus.reading import read_corpus
from jobs.errors import CorpusError
def read(address):
    try:
        return [record.external_id for record in read_corpus(Corpus(path=address))]
    except CorpusError as error:
        return str(error)
print(json.dumps([read(f"hf://datasets/{path}") for path in sys.argv[1:]]))
"""
READ = {
    "user/name": ["2", "10"],
    "user/name/": ["2", "10"],
    "user/name/data": ["2", "10"],
    "user/name@main/data/part-2.jsonl": ["2"],
    f"user/name@{COMMIT}/data/*.jsonl": ["2", "10"],
    "user/name/**/part-??.jsonl": ["10"],
}
REFUSED = {
    "user/none/a.jsonl": "no such file",
    "user/name/none.jsonl": "no such file",
    "user/name@none/data": "no such file",
    "user/name/*.csv": "no file matches",
}


def test_a_dataset_on_the_hub_is_read_as_a_folder_is(tmp_path: Path) -> None:
    data = tmp_path / "dataset/data"
    data.mkdir(parents=True)
    for number in (2, 10):
        (data / f"part-{number}.jsonl").write_text(f'{{"id": {number}, "text": "snow"}}\n')
    (tmp_path / "dataset/README.md").write_text("about it")
    with fake_hub({"user/name": tmp_path / "dataset"}) as hub:
        environment = os.environ | {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_secret", "HF_HOME": str(tmp_path)}
        command = [sys.executable, "-c", READ_ALL, *READ, *REFUSED]
        done = subprocess.run(
            command, env=environment, cwd=CHECKOUT, capture_output=True, text=True, timeout=100, check=True
        )
        assert {request.token for request in hub.requests if "resolve" in request.path} == {"Bearer hf_secret"}
    *ids, none, no_file, no_revision, no_match = json.loads(done.stdout)
    assert ids == list(READ.values())
    for said, (path, fact) in zip((none, no_file, no_revision, no_match), REFUSED.items(), strict=True):
        assert said.startswith(f"hf://datasets/{path}: ")
        assert fact in said
    assert "hf_secret" not in done.stdout + done.stderr

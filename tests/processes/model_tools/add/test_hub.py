"""Models from the Hugging Face hub: downloads, the cache, and errors. The hub is a local server."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.errors import KvjobsError, ModelError, NotFoundError, SpecError
from tests.causal_checkpoints import write_causal_checkpoint
from tests.checkpoints import write_marian_checkpoint
from tests.cross_encoder_checkpoints import write_cross_encoder_checkpoint
from tests.hub import COMMIT, FakeHub, fake_hub
from tests.messages import line_with
from tests.places import CHECKOUT
from worker.model_tools.add import download
from worker.model_tools.add.hub import Hub, fetch

ID = "Helsinki-NLP/opus-mt-en-xx"

TOKENIZER = ["source.spm", "target.spm", "tokenizer_config.json", "vocab.json"]

CONFIGURATION = ["config.json", "generation_config.json"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A published checkpoint: its card, its weights in two formats, and files that kvjobs does not need."""
    folder = write_marian_checkpoint(tmp_path / "published")
    for name in ("README.md", "tf_model.h5", "pytorch_model.bin", ".gitattributes"):
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def server(repository: Path) -> Iterator[FakeHub]:
    with fake_hub({ID: repository}) as server:
        yield server


@pytest.fixture
def hub(server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setenv("NO_PROXY", "*")
    return Hub(endpoint=server.endpoint, cache=tmp_path / "cache")


def names_in(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def partial_files(hub: Hub) -> list[Path]:
    return list(hub.cache.rglob("*partial*"))


# --- fetching
def test_a_model_is_downloaded_as_it_was_published(hub, server, repository):
    snapshot = fetch(ID, None, hub)

    assert (snapshot.commit, snapshot.note) == (COMMIT, None)
    assert names_in(snapshot.folder) == sorted(["README.md", "model.safetensors", *CONFIGURATION, *TOKENIZER])
    for name in names_in(snapshot.folder):
        assert (snapshot.folder / name).read_bytes() == (repository / name).read_bytes()
    assert partial_files(hub) == []


def test_files_in_the_cache_are_not_downloaded_again(hub, server, repository):
    fetch(ID, None, hub)
    server.requests.clear()

    fetch(ID, None, hub)
    fetch(ID, COMMIT, hub)

    assert not any(request.path.startswith("/storage") for request in server.requests)


def test_requests_identify_kvjobs_and_nothing_about_this_machine(hub, server):
    fetch(ID, None, hub)

    assert any(request.user_agent.startswith("kvjobs/") for request in server.requests)
    assert not any("torch" in request.user_agent for request in server.requests)


def test_the_token_is_sent_to_the_hub_but_not_to_its_storage_server(hub, server, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")

    fetch(ID, None, hub)

    tokens = Counter((request.path.startswith("/storage"), request.token) for request in server.requests)
    assert tokens.keys() == {(False, "Bearer hf_secret"), (True, None)}


@pytest.mark.parametrize("cuts", [1, 3])
def test_an_interrupted_download_resumes_where_it_ended(hub, server, repository, cuts, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # no wait between two attempts
    monkeypatch.setattr(download, "_CHUNK", 500)
    server.wrong.cut_after, server.wrong.cuts = 1_000, cuts

    snapshot = fetch(ID, None, hub)

    ranges = server.fetched(repository / "model.safetensors")
    assert ranges == [None, *(f"bytes={1_000 * cut}-" for cut in range(1, cuts + 1))]
    assert (snapshot.folder / "model.safetensors").read_bytes() == (repository / "model.safetensors").read_bytes()


def test_a_download_that_was_killed_continues_in_the_next_process(hub, server, repository, home, kvjobs, monkeypatch):
    write_marian_checkpoint(repository, width=64, vocab_size=8_000)  # larger than one read
    server.wrong.cut_after, server.wrong.cuts = 3 << 19, 1_000
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": server.endpoint, "HF_HUB_CACHE": str(hub.cache)}
    program = "import time, sys; time.sleep = lambda s: sys.exit('killed'); from jobs.cli.main import main; main()"
    call = [sys.executable, "-c", program, "models", "add", ID]

    killed = subprocess.run(call, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert killed.stderr.strip() == "killed"
    assert [file.stat().st_size for file in partial_files(hub)] == [1 << 20]
    assert list(home.glob("models/*")) == []

    server.wrong.cuts = 0
    monkeypatch.setattr(Hub, "of_environment", lambda: hub)
    added = kvjobs("models", "add", ID)

    assert added.exit_code == 0, added.err
    assert line_with(added.out, "source ", ID, COMMIT)
    assert (
        added.err == "Next: kvjobs submit CORPUS --model opus-mt-en-xx --wait\n"
    )  # without a progress bar, since this is not a terminal
    assert server.fetched(repository / "model.safetensors") == [None, f"bytes={1 << 20}-"]
    assert partial_files(hub) == []


def test_two_processes_download_a_file_once(hub, server, repository):
    import threading

    threads = [threading.Thread(target=fetch, args=(ID, None, hub)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert server.fetched(repository / "model.safetensors") == [None]


# --- without a network
def test_offline_uses_the_cache(hub, server):
    fetch(ID, None, hub)
    server.requests.clear()

    snapshot = fetch(ID, None, Hub(endpoint=hub.endpoint, cache=hub.cache, offline=True))

    assert (snapshot.commit, snapshot.note) == (COMMIT, f"HF_HUB_OFFLINE is set: took {ID} from the cache")
    assert server.requests == []


def test_with_an_unreachable_hub_the_cache_is_used(hub):
    fetch(ID, None, hub)

    snapshot = fetch(ID, None, Hub(endpoint="http://127.0.0.1:9", cache=hub.cache))

    assert snapshot.commit == COMMIT
    assert line_with(snapshot.note or "", "cannot be reached", "Connection refused")


def test_offline_without_the_model_is_refused_with_one_sentence(hub):
    with pytest.raises(KvjobsError, match=f"HF_HUB_OFFLINE .*{ID}@v2 .*cache"):
        fetch(ID, "v2", Hub(endpoint=hub.endpoint, cache=hub.cache, offline=True))


def test_offline_with_a_part_of_the_model_is_refused_with_one_sentence(hub):
    (fetch(ID, None, hub).folder / "model.safetensors").unlink()

    with pytest.raises(KvjobsError, match=f"cache .*part of {ID}"):
        fetch(ID, None, Hub(endpoint=hub.endpoint, cache=hub.cache, offline=True))


def test_without_a_network_the_error_is_one_sentence_with_the_reason(hub):
    with pytest.raises(KvjobsError, match=r"http://127.0.0.1:9 .*Connection refused.* not in"):
        fetch(ID, None, Hub(endpoint="http://127.0.0.1:9", cache=hub.cache))


def test_a_hub_that_stops_answering_is_one_sentence_and_the_downloaded_part_is_kept(hub, server, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server.wrong.cut_after, server.wrong.cuts = 0, 1_000

    with pytest.raises(KvjobsError, match=r"cannot be reached.*downloaded.*kept"):
        fetch(ID, None, hub)


# --- refusals
@pytest.mark.parametrize(
    ("status", "code", "kind", "message"),
    [
        (401, "GatedRepo", SpecError, f"{ID} .*gated.*http://.*/{ID}.*HF_TOKEN"),
        (403, "GatedRepo", SpecError, f"{ID} is gated"),
        (401, "RepoNotFound", NotFoundError, f"no model {ID}: .*private, set HF_TOKEN"),
        (403, "Forbidden", SpecError, rf"{ID} \(403\): .*HF_TOKEN"),
        (503, "Busy", KvjobsError, f"503 .*{ID}"),
    ],
)
def test_each_refusal_of_the_hub_is_one_sentence(hub, server, status, code, kind, message):
    server.wrong.refuses = (status, code)

    with pytest.raises(kind, match=message):
        fetch(ID, None, hub)


def test_an_unknown_model_is_not_found(hub):
    with pytest.raises(NotFoundError, match="shows no model Helsinki-NLP/opus-mt-en-yy"):
        fetch("Helsinki-NLP/opus-mt-en-yy", None, hub)


def test_an_unknown_revision_is_not_found(hub):
    with pytest.raises(NotFoundError, match=f"{ID} .*'v7'"):
        fetch(ID, "v7", hub)


@pytest.mark.parametrize("model_id", ["a--b/c", "a/b..c", "a/" + "x" * 200])
def test_an_invalid_model_id_is_not_found(hub, model_id):
    with pytest.raises(NotFoundError, match=r"cannot be.*id"):
        fetch(model_id, None, hub)


def test_an_unsupported_architecture_is_refused_before_its_weights_are_downloaded(hub, server, repository):
    (repository / "config.json").write_text('{"architectures": ["MptForCausalLM"]}')

    with pytest.raises(ModelError, match=f"{ID} .*MptForCausalLM; .*LlamaForCausalLM"):
        fetch(ID, None, hub)
    assert server.fetched(repository / "model.safetensors") == []


def test_a_quantized_model_and_an_adapter_are_refused_before_their_weights_are_downloaded(hub, server, repository):
    config = json.loads((repository / "config.json").read_text()) | {"quantization_config": {"quant_method": "awq"}}
    (repository / "config.json").write_text(json.dumps(config))

    with pytest.raises(ModelError, match=rf"{ID} .*quantized \(AWQ; .*quantization_config .*config\.json"):
        fetch(ID, None, hub)
    (repository / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match=f"{ID} .*adapter"):
        fetch(ID, None, hub)
    assert not any(request.path.startswith("/storage") for request in server.requests)


def test_a_repository_without_a_model_is_refused_with_its_list_of_files(hub, repository):
    for file in repository.iterdir():
        if file.suffix in (".safetensors", ".bin"):
            file.unlink()

    with pytest.raises(ModelError, match=r"model\.safetensors .*\(files: \.gitattributes, README\.md, "):
        fetch(ID, None, hub)


def test_a_repository_without_a_tokenizer_is_refused_with_the_missing_file(hub, repository):
    (repository / "target.spm").unlink()

    with pytest.raises(ModelError, match=r"no target\.spm"):
        fetch(ID, None, hub)


@pytest.fixture
def causal(repository: Path) -> Path:
    """The repository with the files of a causal model."""
    for name in ("source.spm", "target.spm", "vocab.json"):
        (repository / name).unlink()
    write_causal_checkpoint(repository, "llama")
    (repository / "tokenizer.json").write_text("{}")
    return repository


def test_a_causal_checkpoint_is_downloaded_with_its_tokenizer(hub, causal):
    snapshot = fetch(ID, None, hub)

    assert names_in(snapshot.folder) == [
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    again = fetch(ID, None, Hub(endpoint=hub.endpoint, cache=hub.cache, offline=True))
    assert again.folder == snapshot.folder


def test_a_cross_encoder_is_downloaded_with_its_tokenizer(hub, repository):
    for name in ("source.spm", "target.spm", "vocab.json", "generation_config.json"):
        (repository / name).unlink()
    write_cross_encoder_checkpoint(repository, "bert")

    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {*names_in(fetch(ID, None, hub).folder)}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("tokenizer.model", r"tokenizer\.json: .*tokenizer\.model .*AutoTokenizer"),
        ("merges.txt", r"no tokenizer\.json: the tokenizer\. "),
    ],
)
def test_a_causal_checkpoint_without_a_tokenizer_is_refused_before_its_weights_are_downloaded(
    hub, server, causal, other, message
):
    (causal / "tokenizer.json").rename(causal / other)

    with pytest.raises(ModelError, match=message):
        fetch(ID, None, hub)
    assert server.fetched(causal / "model.safetensors") == []


def test_the_files_of_an_older_tokenizer_are_downloaded_where_there_is_no_tokenizer_json(hub, causal):
    (causal / "tokenizer.json").unlink()
    write_vocabulary(causal, tokenizer_class="GPT2Tokenizer")

    snapshot = fetch(ID, None, hub)

    assert {"vocab.json", "merges.txt", "tokenizer_config.json"} <= {*names_in(snapshot.folder)}
    again = fetch(ID, None, Hub(endpoint=hub.endpoint, cache=hub.cache, offline=True))
    assert again.folder == snapshot.folder


def test_the_files_of_an_older_tokenizer_are_left_where_there_is_a_tokenizer_json(hub, causal):
    write_vocabulary(causal, tokenizer_class="GPT2Tokenizer")

    assert not {"vocab.json", "merges.txt"} & {*names_in(fetch(ID, None, hub).folder)}


def test_an_older_tokenizer_of_an_unknown_class_is_refused_before_the_weights_are_downloaded(hub, server, causal):
    (causal / "tokenizer.json").unlink()
    write_vocabulary(causal, tokenizer_class="CTRLTokenizer")

    with pytest.raises(ModelError, match=r"CTRLTokenizer.*tokenizer\.json .*AutoTokenizer"):
        fetch(ID, None, hub)
    assert server.fetched(causal / "model.safetensors") == []


def write_vocabulary(folder: Path, **config: str) -> None:
    (folder / "vocab.json").write_text('{"a": 0, "b": 1, "ab": 2}')
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_an_unsupported_variant_of_a_family_is_refused_before_its_weights_are_downloaded(hub, server, causal):
    write_causal_checkpoint(causal, "llama", rope_scaling={"rope_type": "longrope"})

    with pytest.raises(ModelError, match=f"{ID}: .*rope_type = longrope"):
        fetch(ID, None, hub)
    assert server.fetched(causal / "model.safetensors") == []


def test_an_export_of_any_causal_model_is_downloaded(hub, causal):
    (causal / "config.json").write_text('{"architectures": ["MptForCausalLM"]}')
    (causal / "pytorch_model.bin").unlink()
    (causal / "model.safetensors").rename(causal / "model.onnx")

    assert "model.onnx" in names_in(fetch(ID, None, hub).folder)


# --- damage
def test_a_file_damaged_in_transfer_is_refused_with_one_sentence_and_not_kept(hub, server, repository):
    server.wrong.damages = "model.safetensors"
    with pytest.raises(KvjobsError, match=r"model\.safetensors .*damaged.*checksum"):
        fetch(ID, None, hub)
    assert partial_files(hub) == []

    server.wrong.damages = None
    assert (fetch(ID, None, hub).folder / "model.safetensors").is_file()


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.json"])
@pytest.mark.parametrize("offline", [False, True])
def test_a_file_damaged_in_the_cache_is_removed_and_downloaded_again(hub, repository, name, offline):
    file = fetch(ID, None, hub).folder / name
    blob = file.resolve()
    blob.write_bytes(b"!" + blob.read_bytes()[1:])

    with pytest.raises(KvjobsError, match=f"{name} .*cache .*damaged"):
        fetch(ID, None, Hub(endpoint=hub.endpoint, cache=hub.cache, offline=offline))
    assert fetch(ID, None, hub).note is None
    assert file.read_bytes() == (repository / name).read_bytes()


def test_a_full_disk_is_reported_before_anything_is_downloaded(hub, server, repository, monkeypatch):
    usage = shutil.disk_usage(repository)._replace(free=10)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: usage)

    with pytest.raises(KvjobsError, match=r"\d+ MiB .* 0 MiB .*HF_HOME"):
        fetch(ID, None, hub)
    assert server.fetched(repository / "model.safetensors") == []


def test_an_unwritable_cache_is_reported_with_one_sentence(hub, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(KvjobsError, match="HF_HOME"):
        fetch(ID, None, Hub(endpoint=hub.endpoint, cache=tmp_path / "file"))


def test_a_branch_is_resolved_to_its_current_commit(hub, server):
    fetch(ID, "main", hub)

    resolved = {
        request.path.split("/resolve/")[1].split("/")[0] for request in server.requests if "resolve" in request.path
    }
    assert resolved == {COMMIT}

"""Settings: flags override variables, variables override the file, the file overrides the defaults."""

from dataclasses import fields
from pathlib import Path

import pytest

from jobs.dispatch.worker_arguments import WorkerArguments
from jobs.errors import SpecError
from jobs.settings import OF_OTHERS, Settings, read_settings
from jobs.tasks.task import Task
from tests.command_line import Kvjobs


@pytest.fixture
def config_file(home: Path) -> Path:
    return home / "kvjobs.toml"


def test_flags_override_variables_which_override_the_file_which_overrides_the_defaults(
    home: Path, config_file: Path
) -> None:
    config_file.write_text('lanes = 3\nlease_s = 90\nlog_level = "info"\n')
    environ = {"KVJOBS_HOME": str(home), "KVJOBS_LANES": "4", "KVJOBS_LEASE_S": "120"}

    settings, sources = read_settings({"lanes": 5}, environ)

    assert (settings.lanes, settings.lease_s, settings.log_level, settings.heartbeat_s) == (5, 120, "info", 15)
    assert {setting.name: setting.source for setting in sources}.items() >= {
        ("home", "KVJOBS_HOME"),
        ("database", "default"),
        ("lanes", "flag"),
        ("lease_s", "KVJOBS_LEASE_S"),
        ("heartbeat_s", "default"),
        ("log_level", str(config_file)),
    }


def test_the_file_in_the_current_folder_overrides_the_one_in_the_home_folder(home: Path, config_file: Path) -> None:
    config_file.write_text("lanes = 3")
    Path("kvjobs.toml").write_text("lanes = 2")  # the test runs in a folder of its own

    assert read_settings({}, {"KVJOBS_HOME": str(home)})[0].lanes == 2


MOVING = {
    "database": '"postgresql://elsewhere/jobs"',
    "broker": '"redis://elsewhere/0"',
    "models_dir": '"theirs"',
    "home": '"theirs"',
    "queues": '"gpu"',
    "web_token": '"theirs"',
    "max_upload": '"1T"',
    "notify_url": '"https://elsewhere/hook"',
    "notify_secret": '"whsec_dGhlaXJzIHRoZWlycyB0aGVpcnMgdGhlaXJz"',
    "notify_private": "true",
    "providers": '"openai"',
    "counterparts": '{"demo-lm" = {openai = "theirs"}}',
    "routes": '{"fr-en" = "theirs"}',
    "openai_base_url": '"http://elsewhere/v1"',
    "openai_api_key": '"theirs"',
    "openai_concurrency": "1000",
    "openai_timeout_s": "1.0",
    "openai_attempts": "1000",
    "openai_price_per_million": '"1000"',
    "openai_template": '"{text}"',
    "openai_rerank": '"endpoint"',
    "ollama_host": '"elsewhere"',
    "ollama_keep_alive": '"-1s"',
    "ollama_concurrency": "1000",
    "ollama_timeout_s": "1.0",
    "ollama_template": '"{text}"',
    "llamacpp_context": "1000000",
    "warm_models": "1000",
}

HARMLESS = {
    "lanes": "3",
    "lease_s": "90.0",
    "heartbeat_s": "5.0",
    "poll_s": "2.0",
    "hang_s": "60.0",
    "busy_timeout_s": "9.0",
    "log_level": '"info"',
    "log_format": '"json"',
}


def toml(values: dict[str, str]) -> str:
    return "".join(f"{name} = {value}\n" for name, value in values.items())


def test_a_file_found_in_the_current_folder_cannot_redirect_data(kvjobs: Kvjobs, home: Path) -> None:
    assert MOVING.keys() | HARMLESS.keys() == {field.name for field in fields(Settings)}, "a setting is in neither list"
    here = Path("kvjobs.toml").absolute()
    here.write_text(toml(HARMLESS | MOVING))
    (home / "kvjobs.toml").write_text('queues = "cpu,gpu"\nlanes = 7')

    result = kvjobs("config", "--json")

    found = {row["name"]: row for row in result.json}
    assert {name for name in found if found[name]["source"] == str(here)} == HARMLESS.keys()
    assert (found["lanes"]["value"], found["queues"]["value"]) == (3, "cpu,gpu")  # the user's own file still applies
    (sentence,) = result.err.splitlines()
    assert str(here) in sentence
    assert all(name in sentence for name in MOVING)
    assert "--config kvjobs.toml" in sentence


def test_a_file_that_was_named_explicitly_may_set_everything(
    kvjobs: Kvjobs, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    Path("kvjobs.toml").write_text(toml(HARMLESS | MOVING))
    monkeypatch.delenv("KVJOBS_HOME")

    named = kvjobs("--config", "kvjobs.toml", "config", "--json")

    found = {row["name"]: row["value"] for row in named.json}
    assert named.err == ""
    assert (found["database"], found["home"]) == ("postgresql://elsewhere/jobs", str(tmp_path / "theirs"))
    assert {row["source"] for row in named.json} == {str(tmp_path / "kvjobs.toml")}

    monkeypatch.setenv("KVJOBS_CONFIG", "kvjobs.toml")
    assert kvjobs("config", "--json").json == named.json


def test_the_file_of_the_home_folder_is_the_users_own_in_the_current_folder_too(
    kvjobs: Kvjobs, home: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file.write_text(f"broker = {MOVING['broker']}")
    monkeypatch.chdir(home)

    result = kvjobs("config", "--json")

    assert result.err == ""
    assert {row["name"]: row["source"] for row in result.json}["broker"] == str(config_file)


@pytest.mark.parametrize("how", [["--config", "none.toml"], []])
def test_a_named_file_that_is_not_there_is_refused(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    if not how:
        monkeypatch.setenv("KVJOBS_CONFIG", "none.toml")

    result = kvjobs(*how, "config")

    assert (result.exit_code, "none.toml" in result.err) == (2, True)


def test_an_unknown_variable_is_named_with_the_closest_setting(kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KVJOBS_LANNES", "KVJOBS_COLOUR", "KVJOBS_TEST_POSTGRES", "KVJOBS_FAILPOINTS_LOG", "KVJOBS_WORKERS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("KVJOBS_BROKER_FILE", "/dev/null")

    result = kvjobs("config")

    assert (result.exit_code, result.err) == (
        0,
        "There is no setting KVJOBS_COLOUR; kvjobs config lists all settings.\n"
        "There is no setting KVJOBS_LANNES; did you mean KVJOBS_LANES?\n",
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("lane = 3", "there is no setting 'lane'"),
        ("lanes = ", "not valid TOML"),
        ('lanes = "many"', "lanes: 'many' is not a whole number"),
        ("lanes = -1", "lanes: -1 is not"),
        ("lease_s = 1", "must outlive two heartbeats"),
    ],
)
def test_an_invalid_file_is_refused_with_one_sentence(
    kvjobs: Kvjobs, config_file: Path, content: str, sentence: str
) -> None:
    config_file.write_text(content)

    result = kvjobs("config")

    assert result.exit_code == 2
    assert sentence in result.err


def test_config_shows_each_value_and_its_source(
    kvjobs: Kvjobs, home: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config_file.write_text("lanes = 3")
    monkeypatch.setenv("KVJOBS_POLL_S", "2")

    rows = {row["name"]: (row["value"], row["source"]) for row in kvjobs("config", "--json").json}

    assert rows["home"] == (str(home), "KVJOBS_HOME")
    assert rows["database"] == (f"sqlite:///{home}/kvjobs.db", "default")
    assert rows["lanes"] == (3, str(config_file))
    assert rows["poll_s"] == (2.0, "KVJOBS_POLL_S")
    assert "lanes" in kvjobs("config").out


def test_variables_of_the_official_clients_are_below_every_setting_and_above_the_defaults(
    kvjobs: Kvjobs, home: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"OPENAI_BASE_URL": "http://a/v1/", "OPENAI_API_KEY": "sk-a", "OLLAMA_HOST": "0.0.0.0"}.items():
        monkeypatch.setenv(name, value)

    def shown() -> dict[str, tuple[str, str]]:
        rows = kvjobs("config", "--json").json
        return {row["name"]: (row["value"], row["source"]) for row in rows if row["name"] in OF_OTHERS}

    assert shown() == {
        "openai_base_url": ("http://a/v1", "OPENAI_BASE_URL"),
        "openai_api_key": ("***", "OPENAI_API_KEY"),
        "ollama_host": ("http://127.0.0.1:11434", "OLLAMA_HOST"),
    }
    config_file.write_text('openai_base_url = "http://b/v1"\nollama_host = "c"')
    monkeypatch.setenv("KVJOBS_OLLAMA_HOST", "d")
    assert shown() == {
        "openai_base_url": ("http://b/v1", str(config_file)),
        "openai_api_key": ("***", "OPENAI_API_KEY"),
        "ollama_host": ("http://d:11434", "KVJOBS_OLLAMA_HOST"),
    }


def test_a_variable_of_an_official_client_that_cannot_be_read_sends_documents_nowhere(
    kvjobs: Kvjobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "user:s3cret@host")

    result = kvjobs("config", "--json")

    assert result.exit_code == 0
    assert {row["name"]: row["value"] for row in result.json}["openai_base_url"] == ""
    assert "OPENAI_BASE_URL" in result.err
    assert "s3cret" not in result.out + result.err


def test_a_key_comes_from_a_file_that_the_variable_or_kvjobs_toml_names(home: Path, config_file: Path) -> None:
    (home / "key").write_text("sk-file\n")
    config_file.write_text('openai_api_key_file = "key"\ndatabase_file = "key"')

    settings, sources = read_settings({}, {"KVJOBS_HOME": str(home)})
    assert (settings.openai_api_key, settings.database) == ("sk-file", "sk-file")
    assert {one.name: one.source for one in sources}["openai_api_key"] == str(config_file)

    (home / "other").write_text("sk-other")
    environ = {"KVJOBS_HOME": str(home), "KVJOBS_OPENAI_API_KEY_FILE": str(home / "other"), "OPENAI_API_KEY": "sk-env"}
    assert read_settings({}, environ)[0].openai_api_key == "sk-other"


def test_orders_and_counterparts_are_tables_of_the_file_or_texts_of_variables(home: Path, config_file: Path) -> None:
    config_file.write_text(
        '[providers]\ntranslate = "onnx,openai:gpt-4o-mini"\nscore = "llamacpp,onnx"\n'
        '[counterparts."demo-lm"]\nopenai = "demo-lm-f32"\n'
    )
    settings = read_settings({}, {"KVJOBS_HOME": str(home)})[0]
    assert [str(settings.provider_order(task)) for task in Task] == [
        *("onnx,openai:gpt-4o-mini", "llamacpp,onnx"),
        *("onnx", "onnx"),
    ]
    assert settings.counterpart("openai", "demo-lm") == "demo-lm-f32"
    assert settings.counterpart("ollama", "demo-lm") is settings.counterpart("openai", "demo-en-zh") is None

    environ = {"KVJOBS_HOME": str(home), "KVJOBS_PROVIDERS": "score=onnx,openai", "KVJOBS_COUNTERPARTS": "{}"}
    settings = read_settings({}, environ)[0]
    assert [str(settings.provider_order(task)) for task in Task] == ["onnx", "onnx,openai", "onnx", "onnx"]
    assert settings.counterpart("openai", "demo-lm") is None


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('providers = "sing=onnx"', "providers: providers names the task 'sing'"),
        ("counterparts = 3", "counterparts is not a table"),
        ("routes = 3", "routes is not a table of pairs"),
        ('openai_base_url = "s3cret"', "openai_base_url: it is not the URL of a server"),
        ("openai_api_key = 3", "openai_api_key: it is not a text"),
        ('openai_api_key = "s3cret"\nopenai_api_key_file = "key"', "sets both openai_api_key and openai_api_key_file"),
        ('openai_api_key_file = "none"', "which cannot be read"),
        ("openai_api_key_file = 3", "which is not the path of a file"),
        ("openai_concurrency = 0", "openai_concurrency: 0 is not"),
        ("openai_timeout_s = inf", "openai_timeout_s: inf is not"),
        ("openai_attempts = 0", "openai_attempts: 0 is not"),
        ('openai_price_per_million = "cheap"', "the price per million tokens is 'cheap'"),
        ('openai_template = "{text} in {langauge}"', "has {langauge}"),
        ('openai_template = "Translate"', "lacks {text}"),
        ('ollama_template = "Translate"', "lacks {text}"),
        ('openai_rerank = "magic"', "auto, endpoint, scoring"),
        ('ollama_host = "h:s3cret"', "ollama_host: it is not the address of a server"),
        ('ollama_keep_alive = "soon"', "'soon' is not a duration"),
        ("ollama_concurrency = 0", "ollama_concurrency: 0 is not"),
        ("ollama_timeout_s = 0", "ollama_timeout_s: 0 is not"),
        ("llamacpp_context = -1", "llamacpp_context: -1 is not"),
        ("warm_models = 0", "warm_models: 0 is not a whole number from 1 to 1,000"),
    ],
)
def test_a_setting_of_a_provider_that_is_wrong_is_refused_and_its_secret_not_shown(
    home: Path, config_file: Path, content: str, sentence: str
) -> None:
    config_file.write_text(content)

    with pytest.raises(SpecError) as refusal:
        read_settings({}, {"KVJOBS_HOME": str(home)})

    assert sentence in str(refusal.value)
    assert "s3cret" not in str(refusal.value)


def test_a_number_without_a_unit_keeps_a_model_for_so_many_seconds(home: Path) -> None:
    def keep_alive(text: str) -> str:
        return read_settings({}, {"KVJOBS_HOME": str(home), "KVJOBS_OLLAMA_KEEP_ALIVE": text})[0].ollama_keep_alive

    assert [keep_alive(text) for text in ("300", "-1", "1h30m")] == ["300s", "-1s", "1h30m"]


def test_no_secret_is_an_argument_of_a_process_and_each_arrives_there(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {
        "KVJOBS_HOME": str(home),
        "KVJOBS_OPENAI_API_KEY": "s3cret-key",
        "KVJOBS_OPENAI_BASE_URL": "http://user:s3cret@host/v1",
        "KVJOBS_OLLAMA_HOST": "http://user:s3cret@host",
        "KVJOBS_PROVIDERS": "onnx,openai",
    }
    arguments = WorkerArguments(read_settings({}, environ)[0])

    assert "s3cret" not in arguments.argument()
    for name, value in arguments.environment().items():
        monkeypatch.setenv(name, value)
    assert WorkerArguments.from_argument(arguments.argument()) == arguments


def test_a_price_that_is_none_is_refused_before_the_corpus_is_read(kvjobs: Kvjobs) -> None:
    result = kvjobs("submit", "none.jsonl", "--wait", "--price-per-million", "cheap")

    assert (result.exit_code, "--price-per-million: openai_price_per_million: the price" in result.err) == (2, True)
    result = kvjobs("submit", "none.jsonl", "--price-per-million", "1")
    assert (result.exit_code, "--price-per-million needs --wait" in result.err) == (2, True)


def test_flags_of_the_command_line_are_settings(kvjobs: Kvjobs, tmp_path: Path) -> None:
    rows = {row["name"]: row for row in kvjobs("--home", tmp_path / "other", "config", "--json").json}

    assert rows["home"] == {"name": "home", "value": str(tmp_path / "other"), "source": "flag"}
    assert rows["models_dir"]["value"] == str(tmp_path / "other" / "models")
    assert not (tmp_path / "other").exists()


def test_a_log_level_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="debug, info, warning, error"):
        read_settings({}, {"KVJOBS_HOME": str(tmp_path), "KVJOBS_LOG_LEVEL": "loud"})


def test_a_log_format_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="text or json"):
        read_settings({}, {"KVJOBS_HOME": str(tmp_path), "KVJOBS_LOG_FORMAT": "xml"})

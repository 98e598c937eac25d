"""Settings: from flags, else KVJOBS_* variables, else kvjobs.toml, else variables of other programs (OPENAI_API_KEY
...), else defaults. Read once, at the entry points."""

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from jobs.errors import SpecError, nearest
from jobs.number_ranges import read_size
from jobs.provider_settings.counterparts import parse_counterparts
from jobs.provider_settings.server_address import OLLAMA_URL, OPENAI_URL
from jobs.provider_settings.task_orders import parse_orders
from jobs.provider_settings.token_price import TokenPrice
from jobs.providers import ONNX, ProviderOrder
from jobs.routing.table import RouteTable, parse_table
from jobs.setting_values import NUMBERS, cast_value, checked_number
from jobs.tasks.task import Task
from jobs.text.log_lines import LOG_FORMATS, TEXT

BROKERS = ("redis://", "rediss://", "redis+socket://", "unix://", "sentinel://")
# May contain a password: can also be read from a file, which KVJOBS_<NAME>_FILE names, or <name>_file in kvjobs.toml.
SECRET = ("database", "broker", "web_token", "notify_secret", "openai_base_url", "openai_api_key", "ollama_host")
NEVER_SHOWN = ("web_token", "notify_secret", "openai_api_key")  # the others are URLs, shown without their passwords
# user:password@host. An unescaped password may contain any character, also @ and /, so it ends at the last @. Of a text
# without a scheme at its start (a message, an incomplete address) everything from the first colon on is hidden.
_IN_AUTHORITY = re.compile(r"\A(?:[\w+.-]+://|(?![\w+.-]+://))[^:]*:(?P<secret>.*)@", re.DOTALL)
# ?password=, ?sslpassword=, ... after the name of the database. All that follows is hidden: the value may contain an &.
_IN_PARAMETER = re.compile(
    r"(?:\A|[?&;\s])[\w.%-]*(?:pass|pwd|secret|token|key|credential|auth|%)[\w.%-]*\s*=(?P<secret>.*)",
    re.DOTALL | re.IGNORECASE,
)
PREFIX, FILE_NAME = "KVJOBS_", "kvjobs.toml"
# Settings that a kvjobs.toml in the current folder may change although the user did not name the file.
MOVING_NO_DATA = ("lanes", "lease_s", "heartbeat_s", "poll_s", "hang_s", "busy_timeout_s", "log_level", "log_format")
# KVJOBS_* variables that are not settings: those of this module, of worker/kernels and of docker-compose.yml.
OTHER_VARIABLES = {
    *("KVJOBS_KERNELS", "KVJOBS_BUILD_WITHOUT_KERNELS", "KVJOBS_BUILD_FOR"),
    *("KVJOBS_CONFIG", *(f"KVJOBS_{name.upper()}_FILE" for name in SECRET)),
    *("KVJOBS_MODELS", "KVJOBS_WORKERS", "KVJOBS_WEB_PORT", "KVJOBS_POSTGRES_PORT", "KVJOBS_REDIS_PORT"),
    *("KVJOBS_PROMETHEUS_PORT", "KVJOBS_GRAFANA_PORT"),
}
# The variables of the official clients: below kvjobs.toml, above the defaults.
OF_OTHERS = {"openai_base_url": "OPENAI_BASE_URL", "openai_api_key": "OPENAI_API_KEY", "ollama_host": "OLLAMA_HOST"}
FLAGS = {"openai_price_per_million": "--price-per-million"}  # the others are `--` and the name of the setting
FOR_TESTS = ("KVJOBS_TEST_", "KVJOBS_FAILPOINTS")
LOG_LEVELS = ("debug", "info", "warning", "error")
RERANK_WAYS = ("auto", "endpoint", "scoring")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting, with its meaning and default."""

    home: Path  # where kvjobs keeps its data
    database: str = ""  # SQLAlchemy URL; empty: kvjobs.db under home
    broker: str = ""  # URL of the Redis that wakes the workers of a fleet; empty: workers poll the database
    models_dir: Path  # holds a folder for each model, by name
    queues: str = ""  # the queues that a worker serves: cpu, gpu, model:NAME, separated by commas; empty: by its device
    lanes: int = 0  # threads of a worker, each with its own KV buffers; 0: one per core
    lease_s: float = 60.0  # a worker without a heartbeat for so long loses its shards to others
    heartbeat_s: float = 15.0  # time between two heartbeats
    poll_s: float = 1.0  # how often an idle worker looks for work
    hang_s: float = 120.0  # a lane without a step for so long (or 20 times the usual) is killed with its process
    busy_timeout_s: float = 30.0  # how long to wait for a SQLite database that another program has locked
    log_level: str = "warning"
    log_format: str = TEXT  # of the log of `worker`, `web` and `db upgrade`; json: an object a line
    web_token: str = ""  # that a visitor of the dashboard must know; empty: it serves this machine alone
    max_upload: str = "16G"  # the largest body of a request that `kvjobs web` takes: 500M, 16G ...
    notify_url: str = ""  # gets a webhook when a job ends that is submitted with this setting; empty: none
    notify_secret: str = ""  # signs webhooks: whsec_ and base64 of 24 to 64 bytes
    notify_private: bool = False  # whether webhooks may go to private networks, and over HTTP to http://localhost
    providers: str = ONNX  # who answers a job, in order; by task: "translate=onnx,openai; score=llamacpp"
    counterparts: str = ""  # JSON: the name that a model has at each provider, by the model's name
    routes: str = ""  # JSON: the model, or the two models, of each pair of languages: {"fr-en": "opus-mt-fr-en"}
    openai_base_url: str = OPENAI_URL  # of a server that speaks the API of OpenAI; empty: none
    openai_api_key: str = ""
    openai_concurrency: int = 8  # requests at a time, of a worker's process
    openai_timeout_s: float = 120.0  # of a request
    openai_attempts: int = 3  # of a request, the first one included
    openai_price_per_million: str = ""  # of prompt and completion tokens: "0.15,0.60", or one number; empty: unknown
    openai_template: str = ""  # the prompt of a translation, with {text}, {source}, {target}; empty: the provider's own
    openai_rerank: str = "auto"  # by the server's /rerank (endpoint), by log-probabilities (scoring), or what it can do
    ollama_host: str = OLLAMA_URL  # of an Ollama server; empty: none
    ollama_keep_alive: str = "5m"  # how long the server keeps a model after a request; negative: for ever
    ollama_concurrency: int = 2
    ollama_timeout_s: float = 300.0
    ollama_template: str = ""  # as `openai_template`
    llamacpp_context: int = 0  # tokens; 0: the model's own
    warm_models: int = 4  # that a worker keeps open; the least recently used one is closed first

    def __post_init__(self) -> None:
        for name in NUMBERS:
            checked_number(name, name, getattr(self, name))
        if self.lease_s < 2 * self.heartbeat_s:
            raise SpecError(
                f"lease_s is {self.lease_s:g} and heartbeat_s {self.heartbeat_s:g}; a lease must outlive two heartbeats"
            )
        if self.log_level not in LOG_LEVELS:
            raise SpecError(f"log_level is {self.log_level!r}; it can be {', '.join(LOG_LEVELS)}")
        if self.log_format not in LOG_FORMATS:
            raise SpecError(f"log_format is {self.log_format!r}; it can be {' or '.join(LOG_FORMATS)}")
        if self.broker and not self.broker.startswith(BROKERS):
            # Its value may contain a password, so the message does not repeat it.
            raise SpecError(f"the setting broker is not the URL of a Redis server; write {BROKERS[0]}HOST:6379/0")
        if self.openai_rerank not in RERANK_WAYS:
            raise SpecError(f"openai_rerank is {self.openai_rerank!r}; it can be {', '.join(RERANK_WAYS)}")

    @property
    def database_url(self) -> str:
        """The URL of the database that was set, else of a SQLite file under home."""
        return self.database or sqlite_url(self.home / "kvjobs.db")

    @property
    def database_file(self) -> Path | None:
        """The file of a SQLite database, also one that does not exist yet; None: it is on a server."""
        scheme, _, path = self.database_url.partition(":///")
        return Path(unquote(path.partition("?")[0])) if scheme.partition("+")[0] == "sqlite" else None

    def provider_order(self, task: Task) -> ProviderOrder:
        """Who answers the jobs of a task."""
        return parse_orders(self.providers)[task]

    def counterpart(self, provider: str, model: str) -> str | None:
        """The name of a model at a provider; None: none was set."""
        return parse_counterparts(self.counterparts).get(model, {}).get(provider)

    @property
    def route_table(self) -> RouteTable:
        """The models of each pair of languages."""
        return parse_table(self.routes)

    @property
    def max_upload_bytes(self) -> int:
        """The largest upload."""
        return read_size(self.max_upload)

    @property
    def openai_price(self) -> TokenPrice | None:
        """The price of the server's tokens; None: unknown."""
        return TokenPrice.parse(self.openai_price_per_million)


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of a setting, and where it comes from."""

    name: str
    value: Any
    source: str  # flag | the variable's name | the file's path | default


def sqlite_url(file: Path) -> str:
    """The URL of a SQLite file, as `sqlalchemy.URL.create` makes it; without loading that, which takes `kvjobs --help`
    longer than all else. What it would read otherwise is quoted: %, ?, # and control characters."""
    try:
        str(file).encode()
    except UnicodeEncodeError:
        raise SpecError(
            f"the path {str(file)!r} is not UTF-8, so no URL can name it; set KVJOBS_HOME to another"
        ) from None
    return "sqlite:///" + "".join(
        quote(character) if character in "%?#" or character < " " else character for character in str(file)
    )


def _ignore(_sentence: str) -> None:
    pass


def read_settings(
    flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ, *, warn: Callable[[str], None] = _ignore
) -> tuple[Settings, list[Setting]]:
    """The settings and, for `kvjobs config`, where each comes from; `warn` is called for values that are ignored.

    Raises SpecError for an invalid one.
    """
    for sentence in _unknown_variables(environ):
        warn(sentence)
    named = _named_file(flags, environ)
    home, home_source = _find_home(flags, environ, named)
    files = [named] if named else [*_found_here(home, warn), *_read_file(home / FILE_NAME)]
    defaults: dict[str, Any] = {"models_dir": home / "models"}
    found = [Setting("home", home, home_source)]
    for field in fields(Settings):
        name, variable = field.name, f"KVJOBS_{field.name.upper()}"
        if name == "home":
            continue
        if flags.get(name) is not None:
            flag = FLAGS.get(name, f"--{name}")
            found.append(Setting(name, cast_value(name, field.type, flags[name], flag), "flag"))
        elif environ.get(variable):
            found.append(Setting(name, cast_value(name, field.type, environ[variable], variable), variable))
        elif name in SECRET and (secret := environ.get(f"{variable}_FILE")):
            value = _read_secret(f"{variable}_FILE", Path(secret))
            found.append(Setting(name, cast_value(name, field.type, value, f"{variable}_FILE"), f"{variable}_FILE"))
        elif file := next((file for file in files if name in file.values or f"{name}_file" in file.values), None):
            value = _value_in(file, name)
            found.append(Setting(name, cast_value(name, field.type, value, str(file.path)), str(file.path)))
        elif name in OF_OTHERS and environ.get(OF_OTHERS[name]):
            found.append(_of_others(name, environ[OF_OTHERS[name]], warn))
        else:
            found.append(Setting(name, defaults.get(name, field.default), "default"))
    return Settings(**{setting.name: setting.value for setting in found}), found


@dataclass(frozen=True, slots=True)
class _File:
    """A kvjobs.toml and its values."""

    path: Path
    values: Mapping[str, Any]


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A warning for each KVJOBS_* variable that is unknown, and so would be ignored silently."""
    known = {f"KVJOBS_{field.name.upper()}" for field in fields(Settings)} | OTHER_VARIABLES
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known and not name.startswith(FOR_TESTS):
            near = nearest(name.removeprefix(PREFIX), [known_name.removeprefix(PREFIX) for known_name in known])
            meant = f"did you mean {PREFIX}{near}?" if near else "kvjobs config lists all settings."
            yield f"There is no setting {name}; {meant}"


def _named_file(flags: Mapping[str, Any], environ: Mapping[str, str]) -> _File | None:
    """The file that --config or KVJOBS_CONFIG names."""
    path = flags.get("config") or environ.get("KVJOBS_CONFIG")
    if not path:
        return None
    try:
        return next(iter(_read_file(Path(path), must_exist=True)))
    except FileNotFoundError:
        who = "--config" if flags.get("config") else "KVJOBS_CONFIG"
        raise SpecError(f"{who} names {path}, which does not exist") from None


def _found_here(home: Path, warn: Callable[[str], None]) -> Iterator[_File]:
    """kvjobs.toml in the current folder, without the settings that could redirect data: the folder may have come from
    somebody else."""
    try:
        if Path.cwd() == home.resolve():
            return
    except FileNotFoundError:  # the current folder has been deleted
        return
    for file in _read_file(Path(FILE_NAME)):
        ignored = [name for name in file.values if name not in MOVING_NO_DATA]
        if ignored:
            warn(
                f"Ignored in {file.path}, since the file was not named: {', '.join(ignored)}. To use "
                f"{'it' if len(ignored) == 1 else 'them'}: kvjobs --config {FILE_NAME} ..., or KVJOBS_CONFIG."
            )
        yield _File(file.path, {name: value for name, value in file.values.items() if name not in ignored})


def _find_home(flags: Mapping[str, Any], environ: Mapping[str, str], named: _File | None) -> tuple[Path, str]:
    if flags.get("home"):
        return Path(flags["home"]).expanduser().absolute(), "flag"
    if environ.get("KVJOBS_HOME"):
        return Path(environ["KVJOBS_HOME"]).expanduser().absolute(), "KVJOBS_HOME"
    if named and "home" in named.values:
        return cast_value("home", Path, named.values["home"], str(named.path)), str(named.path)
    import platformdirs  # here, so that a health check, whose home is set, does not load it

    return Path(platformdirs.user_data_dir("kvjobs", appauthor=False)), "default"


def _read_file(path: Path, *, must_exist: bool = False) -> list[_File]:
    """The values of a file; empty if there is no file. Raises SpecError for one that cannot be read."""
    path = path.absolute()
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if must_exist:
            raise
        return []
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from None
    known = [field.name for field in fields(Settings)]
    of_files = {f"{name}_file" for name in SECRET}
    if unknown := sorted(values.keys() - set(known) - of_files):
        raise SpecError(f"{path}: there is no setting {unknown[0]!r}; the settings are {', '.join(known)}")
    if twice := next((name for name in SECRET if name in values and f"{name}_file" in values), None):
        raise SpecError(f"{path} sets both {twice} and {twice}_file; leave one of them out")
    return [_File(path, values)]


def _value_in(file: _File, name: str) -> Any:
    """The value of a setting in a file, or in the one that `<name>_file` names, relative to the folder of the first."""
    if name in file.values:
        return file.values[name]
    path = file.values[f"{name}_file"]
    if not isinstance(path, str):
        raise SpecError(f"{file.path}: {name}_file is {path!r}, which is not the path of a file")
    return _read_secret(f"{file.path}: {name}_file", file.path.parent / Path(path).expanduser())


def _read_secret(source: str, path: Path) -> str:
    """The content of a file, which is how Docker and Kubernetes pass secrets."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise SpecError(f"{source} names {path}, which cannot be read: {error}") from None


def _of_others(name: str, value: str, warn: Callable[[str], None]) -> Setting:
    """A setting from the variable of another program. An unreadable value leaves the setting empty, so that no
    document is sent to a server that was not meant, and commands that use no server go on."""
    try:
        return Setting(name, cast_value(name, str, value, OF_OTHERS[name]), OF_OTHERS[name])
    except SpecError as error:
        warn(f"{error}. Until then the setting {name} is empty.")
        return Setting(name, "", OF_OTHERS[name])


def shown_value(name: str, value: Any) -> Any:
    """The value of a setting as it may be shown: without passwords, and of a token nothing."""
    if name not in SECRET or not value:
        return value
    return "***" if name in NEVER_SHOWN else hide_passwords(str(value))


def hide_passwords(url: str) -> str:
    """The URL of a database or a broker without its passwords; in doubt, more of it is hidden."""
    authority, parameter = _IN_AUTHORITY.search(url), _IN_PARAMETER.search(url)
    start, end = authority.span("secret") if authority else (len(url), len(url))
    if parameter is None:
        return url if authority is None else f"{url[:start]}***{url[end:]}"
    if (
        authority is None or parameter.start("secret") <= end
    ):  # one within the other: it is unclear which holds the password
        return f"{url[: min(start, parameter.start('secret'))]}***"
    return f"{url[:start]}***{url[end : parameter.start('secret')]}***"

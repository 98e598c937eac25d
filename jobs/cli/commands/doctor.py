"""`kvjobs doctor`: what is wrong with this installation, and how to repair it."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

import jobs
from jobs.cli.context import Context
from jobs.cli.render.output import Output, output_options
from jobs.errors import KvjobsError
from jobs.settings import hide_passwords
from jobs.system.private import is_readable_by_others
from jobs.system.process import available_cores, cpu_quota, is_stopped, memory_limit
from jobs.system.requirements import installed_version
from jobs.text.formatting import counted, figure, size
from jobs.worker_port import worker_port

if TYPE_CHECKING:
    from jobs.settings import Settings
    from jobs.store.database import Database

DISTRIBUTION = "kvjobs"
PACKAGES = ("jobs", "worker")  # common names: an unrelated distribution `worker` exists
OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35, 0)  # UPDATE ... RETURNING
LEAST_FREE_DISK = 1 << 30
MOST_UNFOLDED = 10_000  # recorded batches; with workers there are some hundred
REDIS_SETTINGS = {"maxmemory-policy": "noeviction", "appendonly": "yes"}


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result; the fields are the keys of `--json`."""

    name: str
    ok: bool
    found: str
    mend: str = ""  # what to do if it is not ok, or a warning
    is_warning: bool = False  # it works, but should be changed


@click.command()
@output_options()
@click.pass_obj
def doctor(context: Context, output: Output) -> int:
    """Check this installation and suggest repairs.

    Nothing is changed: no database is created, no model is opened. Exit code 1 if anything is wrong.
    """
    checks = list(examine(context))
    healthy = all(check.ok for check in checks)
    output.record({"ok": healthy, "checks": [asdict(check) for check in checks]}, lambda: _print(checks))
    return 0 if healthy else 1


def examine(context: Context) -> Iterator[Check]:
    """Run every check; one that fails does not stop the others."""
    yield from _guarded("python", _python)
    yield from _guarded("packages", _packages)
    yield from _guarded("dependencies", _dependencies)
    yield from _guarded("sqlite", _sqlite)
    yield from _guarded("machine", _machine)
    yield from _guarded("kernels", _kernels)
    try:
        settings = context.settings
    except KvjobsError as error:
        yield Check("settings", False, str(error), "correct the setting, then run: kvjobs config")
        return
    yield from _guarded("home", lambda: _home(settings))
    yield from _guarded("database", lambda: _database(context))
    if settings.broker:
        yield from _guarded("broker", lambda: _broker(settings))
    yield from _guarded("models", lambda: _models(settings))
    yield from _guarded("providers", lambda: _providers(settings))


def _guarded(name: str, look: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from look()
    except Exception as error:  # a check that fails is a finding too
        yield Check(name, False, f"this check failed: {error}", "for a traceback: kvjobs --debug doctor")


def _python() -> Iterator[Check]:
    found = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    oldest = ".".join(map(str, OLDEST_PYTHON))
    yield Check("python", sys.version_info[:2] >= OLDEST_PYTHON, found, f"install Python {oldest} or newer")


def _packages() -> Iterator[Check]:
    """Both packages must belong to kvjobs: Python silently takes the first of that name on its path."""
    here = Path(jobs.__file__).resolve().parents[1]
    providers = importlib.metadata.packages_distributions()
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        found_in = Path(spec.origin).resolve() if spec and spec.origin else None
        others = sorted(set(providers.get(name, [])) - {DISTRIBUTION})
        if others:
            found, mend = f"the distribution {others[0]} has a package of this name too", f"pip uninstall {others[0]}"
        elif found_in is None or found_in.parents[1] != here:
            found = f"Python finds {found_in or 'none'}, not the one beside {here / 'jobs'}"
            mend = "run kvjobs in another folder, or reinstall it from where you got it"
        else:
            found, mend = str(found_in.parent), ""
        yield Check(f"package {name}", not mend, found, mend)


def _dependencies() -> Iterator[Check]:
    try:
        required = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            "dependencies",
            False,
            f"{DISTRIBUTION} runs from a folder, without being installed",
            "in that folder: pip install .",
        )
        return
    for requirement in required:
        if "extra ==" in requirement:
            continue
        match = re.match(r"([\w.-]+)(?:>=([\w.]+))?", requirement)
        assert match is not None, requirement
        name, least = match[1], match[2] or "0"
        version = installed_version(name)
        ok = version is not None and _numbers(version) >= _numbers(least)
        yield Check(name, ok, version or "not installed", f"pip install '{name}>={least}'")


def _sqlite() -> Iterator[Check]:
    oldest = ".".join(map(str, OLDEST_SQLITE))
    ok = sqlite3.sqlite_version_info >= OLDEST_SQLITE
    yield Check("sqlite", ok, sqlite3.sqlite_version, f"use a Python built with SQLite {oldest} or newer")


def _machine() -> Iterator[Check]:
    memory = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), memory_limit())
    cores, quota = available_cores(), cpu_quota()
    limited = f" (a quota of {figure(quota)})" if quota <= cores else ""
    yield Check("machine", True, f"{counted(cores, 'core')}{limited}, {size(memory)} of memory")


def _kernels() -> Iterator[Check]:
    """The compiled kernels, without which everything works, more slowly."""
    found = worker_port().check_kernels()
    yield Check("kernels", True, found.found, found.mend, is_warning=bool(found.mend))


def _home(settings: "Settings") -> Iterator[Check]:
    home = settings.home
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    found = f"{home}" if there == home else f"{home} (will be created)"
    yield Check(
        "home",
        writable,
        found if writable else f"{there} cannot be written",
        "set KVJOBS_HOME to a folder that you can write to",
    )
    free = shutil.disk_usage(there).free
    yield Check(
        "disk",
        free >= LEAST_FREE_DISK,
        f"{size(free)} free",
        "free some space, or set KVJOBS_HOME to a folder on another disk",
    )


def _database(context: Context) -> Iterator[Check]:
    from jobs.store.schema import migrate

    url = context.settings.database_url
    shown = hide_passwords(url)
    file = context.settings.database_file
    if file is not None and not file.exists():
        yield Check("database", True, f"{shown} (the first submit creates it)")
        return
    try:
        with context.database_as_it_is() as database:
            version = migrate.schema_version(database.engine)
            glossaries = list(_glossaries(database)) if version == migrate.HEAD else []
            unfolded = _unfolded(database) if version == migrate.HEAD else 0
    except KvjobsError as error:
        yield Check("database", False, str(error), "to see where the address comes from: kvjobs config")
        return
    ok = version == migrate.HEAD
    found = f"{shown}, schema {version or 'empty'}" + ("" if ok else f", must be {migrate.HEAD}")
    yield Check("database", ok, found, "kvjobs db upgrade")
    yield from glossaries
    if unfolded > MOST_UNFOLDED:
        yield Check(
            "sums",
            True,
            f"{unfolded:,} recorded batches are not added to the sums of their jobs: reports are right, and slower",
            "start a worker, which adds them: kvjobs worker",
            is_warning=True,
        )
    if database.file is not None:
        yield from _frozen_writer(database.file)
    if file is not None:
        yield from _readable_by_others(file)


def _glossaries(database: "Database") -> Iterator[Check]:
    """Whether each job has the glossary that it was submitted with."""
    from jobs.store.glossaries import count_glossaries, jobs_without_glossary

    with database.reading() as connection:
        stored, lacking = count_glossaries(connection), jobs_without_glossary(connection)
    if lacking:
        which = ", ".join(map(str, lacking[:5])) + (" ..." if lacking[5:] else "")
        yield Check(
            "glossaries",
            False,
            f"that of {counted(len(lacking), 'job')} is not in the database ({which})",
            f"kvjobs cancel {lacking[0]}, and submit it again with the file",
        )
    elif stored:
        yield Check("glossaries", True, f"{counted(stored, 'glossary')} in the database")


def _unfolded(database: "Database") -> int:
    from jobs.store.queue.deltas import count_deltas

    with database.reading() as connection:
        return count_deltas(connection)


def _frozen_writer(file: Path) -> Iterator[Check]:
    """A process that somebody stopped in the middle of a transaction keeps all others from writing."""
    from jobs.store.connection.lock_holder import lock_holder

    holder = lock_holder(file)
    if holder is not None and is_stopped(holder):
        yield Check(
            "database lock",
            False,
            f"process {holder} is stopped and holds the lock, so that nothing can be written",
            f"to let it go on: kill -CONT {holder}; to end it: kill -9 {holder}",
        )


def _readable_by_others(file: Path) -> Iterator[Check]:
    """The database holds what people submitted. Older versions created its files with the permissions of the umask."""
    files = [file, *(file.with_name(f"{file.name}-{part}") for part in ("wal", "shm"))]
    open_to_others = [path for path in files if path.exists() and is_readable_by_others(path)]
    if open_to_others:
        yield Check(
            "database files",
            True,
            f"other accounts of this machine can read {', '.join(map(str, open_to_others))}",
            f"chmod 600 {shlex.join(map(str, open_to_others))}",
            is_warning=True,
        )


def _broker(settings: "Settings") -> Iterator[Check]:
    from jobs.dispatch.broker import configuration, make_app

    shown = hide_passwords(settings.broker)
    try:
        found = configuration(make_app(settings.broker), *REDIS_SETTINGS)
    except KvjobsError as error:
        yield Check("broker", False, str(error), "start Redis, or correct the address that kvjobs config shows")
        return
    yield Check("broker", True, shown)
    if found is None:
        yield Check("broker settings", True, "unknown: this Redis does not allow CONFIG GET")
        return
    for name, wanted in REDIS_SETTINGS.items():
        yield Check(
            f"broker {name}",
            True,
            found[name] or "unknown",
            f"hints may get lost, which delays jobs by seconds; in redis.conf, set: {name} {wanted}",
            is_warning=found[name] != wanted,
        )


def _models(settings: "Settings") -> Iterator[Check]:
    """Whether the files of every model are complete; `kvjobs models inspect` opens them."""
    found = worker_port().installed_models(settings.models_dir)
    if not found:
        yield Check(
            "models",
            False,
            f"none in {settings.models_dir}",
            "add one: kvjobs models add SOURCE; or reinstall kvjobs, for the bundled ones",
        )
    for model in found:
        is_complete = model.problem is None
        yield Check(
            f"model {model.name}",
            is_complete,
            model.problem or str(model.path),
            "" if is_complete else "repair the folder, or move it away",
        )


def _providers(settings: "Settings") -> Iterator[Check]:
    """Whether the providers that the settings name are ready; onnx is, with the dependencies above."""
    for check in worker_port().check_providers(settings):
        is_ok = not check.mend or check.is_warning
        yield Check(f"provider {check.name}", is_ok, check.found, check.mend, is_warning=check.is_warning)


def _numbers(version: str) -> tuple[int, ...]:
    """2.0.36rc1 as (2, 0, 36)."""
    return tuple(int(number) for number in re.findall(r"(?:^|\.)(\d+)", version.partition("+")[0]))


def _print(checks: list[Check]) -> None:
    from jobs.cli.render.layout import print_page

    name = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        verdict = "PROBLEM" if not check.ok else "warning" if check.is_warning else "ok"
        lines.append(f"{verdict:<7}  {check.name:<{name}}  {check.found}")
        if not check.ok or check.is_warning:
            lines.append(f"{'':<7}  {'':<{name}}  -> {check.mend}")
    print_page(lines, indent=7 + 2 + name + 2)

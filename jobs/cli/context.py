"""What a command is handed: the settings, read when the first command asks for them, and the database."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jobs.cli.render.messages import print_message

if TYPE_CHECKING:
    from jobs.settings import Setting, Settings
    from jobs.store.database import Database


@dataclass(frozen=True)
class Context:
    """The global options of one call. `kvjobs --help` makes none, so it loads no settings and no database."""

    flags: Mapping[str, Any] = field(default_factory=dict)  # setting -> what the command line says
    debug: bool = False  # show a traceback with an error

    @property
    def settings(self) -> "Settings":
        return self._read[0]

    @property
    def sources(self) -> "list[Setting]":
        """Each setting and who said so."""
        return self._read[1]

    def command(self, *arguments: object) -> str:
        """Another call of kvjobs with the same global options, to be typed; without the password of a database."""
        from jobs.settings import hide_passwords

        given = {name: value for name, value in self.flags.items() if value is not None}
        options = (f"--{name}={hide_passwords(str(value))}" for name, value in given.items())
        return shlex.join(["kvjobs", *options, *map(str, arguments)])

    @contextmanager
    def database(self) -> "Iterator[Database]":
        """The database, its schema up to date; closed at the end."""
        from jobs.store.database import Database

        database = Database.open(self.settings.database_url, busy_timeout_s=self.settings.busy_timeout_s)
        try:
            yield database
        finally:
            database.close()

    @contextmanager
    def database_as_it_is(self) -> "Iterator[Database]":
        """The database, whatever its schema; for those that look after it."""
        from jobs.store.database import Database

        database = Database.connect(self.settings.database_url, busy_timeout_s=self.settings.busy_timeout_s)
        try:
            with database.translated_errors():
                yield database
        finally:
            database.close()

    @cached_property
    def _read(self) -> "tuple[Settings, list[Setting]]":
        from jobs.settings import read_settings

        return read_settings(self.flags, warn=print_message)


def this_command() -> str:
    """What was typed, to be typed again."""
    return shlex.join(["kvjobs", *sys.argv[1:]])

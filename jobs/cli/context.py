"""What each command receives: the settings, read on first use, and the database."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jobs.addresses.address import without_secrets
from jobs.cli.render.messages import print_message

if TYPE_CHECKING:
    from jobs.settings import Setting, Settings
    from jobs.store.database import Database

GLOBAL = ("home", "database", "config")  # the options that stand before the command


@dataclass(frozen=True)
class Context:
    """The global options of one call."""

    flags: Mapping[str, Any] = field(default_factory=dict)  # setting -> its value on the command line, or None
    debug: bool = False  # show a traceback with an error

    @property
    def settings(self) -> "Settings":
        return self._read[0]

    @property
    def sources(self) -> "list[Setting]":
        """Each setting, and where its value comes from."""
        return self._read[1]

    def with_flags(self, **flags: Any) -> "Context":
        """The same call, with settings that options of its command set; None: not given."""
        return Context({**self.flags, **flags}, self.debug)

    def command(self, *arguments: object) -> str:
        """A command line for the user to type, with the same global options; passwords are hidden."""
        from jobs.settings import hide_passwords

        given = {name: value for name in GLOBAL if (value := self.flags.get(name)) is not None}
        options = (f"--{name}={hide_passwords(str(value))}" for name, value in given.items())
        return shlex.join(["kvjobs", *options, *map(str, arguments)])

    @contextmanager
    def database(self) -> "Iterator[Database]":
        """The database with its schema up to date; closed at the end of the block."""
        from jobs.store.database import Database

        database = Database.open(self.settings.database_url, busy_timeout_s=self.settings.busy_timeout_s)
        try:
            yield database
        finally:
            database.close()

    @contextmanager
    def database_as_it_is(self) -> "Iterator[Database]":
        """The database whatever its schema, for the commands that maintain it."""
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
    """The command line of this process, for the user to type again; what is secret in addresses is hidden."""
    return shlex.join(["kvjobs", *map(without_secrets, sys.argv[1:])])

"""The database in a page: one snapshot for all that the page shows."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import Connection

from jobs.settings import Settings


def _reading(request: Request) -> Iterator[Connection]:
    with request.app.state.database.reading() as connection:
        yield connection


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


Reading = Annotated[Connection, Depends(_reading)]
SettingsOfApp = Annotated[Settings, Depends(_settings)]

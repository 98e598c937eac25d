"""What a page is given: a number in its address, one snapshot of the database for all that it shows, the settings."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import Depends, Path, Request
from sqlalchemy import Connection

from jobs.settings import Settings
from jobs.store.report.job_summary import LARGEST_ID

JobId = Annotated[int, Path(ge=1, le=LARGEST_ID)]


def _reading(request: Request) -> Iterator[Connection]:
    with request.app.state.database.reading() as connection:
        yield connection


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


Reading = Annotated[Connection, Depends(_reading)]
SettingsOfApp = Annotated[Settings, Depends(_settings)]

"""Glossaries: stored once with their jobs, a part of the job's identity, gone with the last job."""

import pytest
from sqlalchemy import func, select

from jobs.errors import NotFoundError
from jobs.store.database import Database
from jobs.store.glossaries import prune_glossaries, read_glossary_content, store_glossaries
from jobs.store.schema.glossary_table import StoredGlossary
from jobs.tasks.translate import TranslateOptions
from jobs.terms.glossary import Glossary, read_glossary, read_kept_terms

GLOSSARY = read_glossary("rain\tRegen\nsnow\tSchnee\n")
OPTIONS = TranslateOptions(glossary=GLOSSARY, no_translate=read_kept_terms("Berlin"))


def stored(database: Database) -> int:
    with database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(StoredGlossary)) or 0


def test_a_glossary_is_stored_once_and_read_by_its_digest(database: Database) -> None:
    for _ in range(2):
        with database.writing() as connection:
            store_glossaries(connection, OPTIONS)

    assert stored(database) == 2
    assert read_glossary_content(database, Glossary(GLOSSARY.digest)).terms() == GLOSSARY.terms()


def test_a_digest_that_no_job_has_is_refused(database: Database) -> None:
    with pytest.raises(NotFoundError), database.writing() as connection:
        store_glossaries(connection, TranslateOptions(glossary=Glossary("0" * 64)))
    with pytest.raises(NotFoundError):
        read_glossary_content(database, Glossary("0" * 64))


def test_one_that_no_job_has_is_pruned(database: Database) -> None:
    with database.writing() as connection:
        store_glossaries(connection, OPTIONS)

    assert prune_glossaries(database) == 2
    assert stored(database) == 0

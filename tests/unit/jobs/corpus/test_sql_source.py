"""What names a query of another database, and where the address of that may come from."""

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpus.sql_source import SqlSource, is_query, query_words
from jobs.errors import SpecError

QUERY = "select id, body as text -- all\nfrom articles where a = 'x: y (z)' and b like '%'"
SECRET_URL = "postgresql://reader:SECRET@host/news"


def test_the_stored_name_asks_the_same_query_again_and_holds_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWS_DB", SECRET_URL)
    (tmp_path / "address").write_text(f"{SECRET_URL}\n")
    for where, url in (
        ("postgresql://reader@host/news", "postgresql://reader@host/news"),
        ("sqlite:////data/a.db", "sqlite:////data/a.db"),
        ("NEWS_DB", SECRET_URL),
        (f"@{tmp_path}/address", SECRET_URL),
    ):
        found = SqlSource.read(where, f" {QUERY}\n")
        assert (found.url, found.query) == (url, QUERY)
        assert is_query(found.source)
        assert query_words(found.source) == ["--from-sql", QUERY, "--source", where]
        assert "SECRET" not in f"{found.source} {found!r} {found.name}"


@given(query=st.text(min_size=1).filter(str.strip))
def test_any_query_comes_back_from_its_name(query: str) -> None:
    found = SqlSource.read("sqlite:////data/a.db", query)
    assert query_words(found.source)[1] == query.strip()


@pytest.mark.parametrize("source", ["standard input", "/data/query of a.jsonl", "s3://bucket/a.jsonl", "query of"])
def test_other_corpora_are_no_queries(source: str) -> None:
    assert not is_query(source)


@pytest.mark.parametrize(
    ("where", "query"),
    [
        *((SECRET_URL, "select 1"), ("postgresql://host/news?password=SECRET", "select 1"), ("UNSET_DB", "select 1")),
        *(("@/no/such/SECRET-free/file", "select 1"), ("a b", "select 1"), ("", "select 1"), ("BAD_DB", "select 1")),
        ("sqlite:////data/a.db", "  "),
    ],
)
def test_what_names_no_database_is_refused_without_a_password(
    where: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAD_DB", "reader SECRET host")
    with pytest.raises(SpecError) as refused:
        SqlSource.read(where, query)
    assert "SECRET" not in str(refused.value).replace("SECRET-free", "")


def test_the_command_of_a_job_asks_its_query() -> None:
    from jobs.corpus.corpus import Corpus
    from jobs.spec import JobSpec
    from jobs.submit_command import StoredSubmit, submit_command
    from jobs.tasks.task import Task
    from jobs.tasks.translate import TranslateOptions

    spec = JobSpec(task=Task.TRANSLATE, model="m", model_revision="r", options=TranslateOptions())
    source = SqlSource.read("sqlite:////data/a.db", QUERY).source
    job = StoredSubmit(
        task="translate",
        model="m",
        model_revision="r",
        options=spec.options_json(),
        providers=None,
        source=source,
        reading=Corpus(path="-").reading,
        priority=0,
        queue="cpu",
    )
    words = shlex.split(submit_command(job) or "")
    assert words[:6] == ["kvjobs", "submit", "--from-sql", QUERY, "--source", "sqlite:////data/a.db"]
    assert "--format" not in words

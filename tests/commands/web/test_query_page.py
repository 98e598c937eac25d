"""/query: what an address asks is answered, what is wrong stands beside the SQL, and hostile text is text."""

import csv
import io
import threading
import time
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest
from sqlalchemy import make_url
from starlette.testclient import TestClient

from jobs.settings import Settings
from jobs.store.database import Database
from jobs.store.report.query.saved_queries import saved_queries
from jobs.web.app import Options, create_app
from jobs.web.pages import query
from tests.databases import ON_BOTH, ON_POSTGRESQL, SERVER
from tests.messages import line_with
from tests.rows import AddJob, Line


class Page(HTMLParser):
    """The elements of a page, and its texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [
            found
            for name, found in self.elements
            if name == tag and all(found.get(key) == value for key, value in attributes.items())
        ]

    @property
    def text(self) -> str:
        return "".join(self.texts)


def ask(client: TestClient, sql: str, **others: object) -> Page:
    answer = client.get("/query", params={"sql": sql, **others})
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


@ON_BOTH
def test_the_address_is_the_question(client: TestClient, finished_job: int) -> None:
    sql = "select id, translation from v_documents where job_id = :job order by id"

    page = ask(client, sql, **{"p.job": finished_job, "limit": 2})

    assert "2 rows of more" in page.text
    assert page.all("h2", id="answer-title")
    assert "译文1" in page.text
    assert "译文2" not in page.text
    assert sql in page.text
    assert page.all("input", name="p.job")[0]["value"] == str(finished_job)


@ON_BOTH
def test_every_saved_question_opens(client: TestClient, mixed_job: int) -> None:
    for name, question in saved_queries().items():
        answer = client.get("/query", params={"saved": name})

        assert answer.status_code == 200, name
        assert question.title in answer.text
        assert "problem" not in [found.get("id") for _, found in Page(answer.text).elements], name


def test_a_saved_question_is_offered_by_its_title(client: TestClient) -> None:
    links = [found["href"] for found in Page(client.get("/query").text).all("a")]

    assert {f"/query?saved={name}" for name in saved_queries()} <= set(links)


def test_a_saved_question_of_which_there_is_no_job_keeps_its_sql(client: TestClient, database: Database) -> None:
    answer = client.get("/query?saved=phases")

    assert answer.status_code == 400
    assert "no job yet" in answer.text
    assert "from v_phases" in answer.text


def test_a_parameter_without_a_value_is_asked_for_and_nothing_runs(client: TestClient, database: Database) -> None:
    page = ask(client, "select :x as x")

    assert line_with(page.text, "Give", ":x")
    assert "required" in page.all("input", name="p.x")[0]
    assert not page.all("h2", id="answer-title")
    assert client.get("/query.json", params={"sql": "select :x as x"}).status_code == 400
    assert client.get("/query.csv", params={"sql": "select :x as x"}).json() == {
        "error": "the query asks for :x; give its value: &p.x=VALUE"
    }


@ON_BOTH
@pytest.mark.parametrize(
    "sql", ["delete from jobs", "selec 1", "select * from nosuch", "select 1; select 2", "attach 'x' as y", "\0"]
)
def test_what_is_wrong_is_a_sentence_beside_the_sql(client: TestClient, finished_job: int, sql: str) -> None:
    answer = client.get("/query", params={"sql": sql})
    page = Page(answer.text)

    assert answer.status_code == 400
    assert page.all("p", id="problem", role="alert")
    assert page.all("textarea")[0]["aria-describedby"] == "problem"
    assert sql.replace("\0", "") in page.text
    for other in ("json", "csv"):
        answer = client.get(f"/query.{other}", params={"sql": sql})
        assert answer.status_code == 400
        assert list(answer.json()) == ["error"]


@ON_BOTH
def test_a_query_that_takes_too_long_is_ended(client: TestClient, database: Database) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    started = time.monotonic()

    answer = client.get("/query", params={"sql": endless, "timeout": 0.2})

    assert time.monotonic() - started < 5
    assert answer.status_code == 503
    assert "0.2 seconds" in answer.text


@pytest.mark.parametrize("wrong", ["limit=0", "limit=x", "timeout=0", "timeout=61", "timeout=nan", "saved=nosuch"])
def test_a_limit_cannot_be_lifted(client: TestClient, wrong: str) -> None:
    assert client.get(f"/query?sql=select+1&{wrong}" if "saved" not in wrong else f"/query?{wrong}").status_code in (
        400,
        404,
    )


@ON_POSTGRESQL
def test_a_superuser_is_refused_with_its_sentence(database: Database, home: object) -> None:
    url = make_url(SERVER).set(database=database.engine.url.database).render_as_string(hide_password=False)
    superuser = Database.open(url)
    app = create_app(superuser, Settings(home=home, models_dir=home), Options(hosts=("testserver",)))  # type: ignore[arg-type]  # a folder
    with TestClient(app) as client:
        answer = client.get("/query?sql=select+1")
    superuser.close()

    assert answer.status_code == 400
    assert "is a superuser" in answer.text
    assert "kvjobs db grant-reader" in answer.text


HOSTILE = (
    "<script>alert(1)</script>",
    "</textarea><img src=x onerror=alert(1)>",
    "\"' onmouseover=alert(1) x='",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe\x1b[31m\x00"[:-1],
    "</script><script>alert(1)</script>",
)


@ON_BOTH
def test_text_of_documents_and_of_the_query_stays_text(client: TestClient, add_job: AddJob) -> None:
    add_job(*(Line(f"d{number}", text, text=text * 30) for number, text in enumerate(HOSTILE)))

    page = ask(client, "select 1.5 as n, translation, text from v_documents order by position")

    scripts = page.all("script")
    assert all("src" in script or script["type"] == "application/json" for script in scripts)
    assert not page.all("img")
    assert not [found for _, found in page.elements if any(name.startswith("on") for name in found)]
    assert "{{ 7 * 7 }}" in page.text
    assert r"\u202egnp.exe\x1b[31m" in page.text
    assert "\u202e" not in page.text
    for text in HOSTILE[:4]:
        sql = f"select '{text.replace(chr(39), chr(39) * 2)}' as \"<b>{'x' * 5}\""
        shown = ask(client, sql)
        assert not shown.all("b")
        assert not shown.all("img")
        assert text in shown.text


def test_a_long_text_is_folded_and_cut(client: TestClient, database: Database) -> None:
    page = ask(client, "select printf('%.*c', 50000, 'x') as long, printf('%.*c', 100, 'y') as short")

    assert page.text.count("x") >= 20_000
    assert "30,000 characters more" in page.text
    assert len(page.all("details", **{"class": "fold"})) == 1


@ON_BOTH
def test_null_is_a_dash_and_numbers_stand_to_the_right(client: TestClient, database: Database) -> None:
    page = ask(client, "select null as missing, 12 as n, 'a' as t")

    assert page.all("span", title="null")
    assert [found.get("class") for found in page.all("td")] == [None, "num", None]


@ON_BOTH
def test_one_number_over_one_label_is_a_chart_with_its_sentence(client: TestClient, mixed_job: int) -> None:
    sql = "select status, count(*) * 2 as twice from v_documents group by status union all select 'all', 10"

    page = ask(client, sql)

    assert page.all("div", **{"data-chart": "answer-chart-data"})
    assert line_with(page.text, "twice is highest", "all (10)", "lowest")
    assert not ask(client, "select id, text from v_documents").all("figure")


def test_the_chart_shows_the_columns_that_the_address_names(client: TestClient, database: Database) -> None:
    sql = "select 1 as a, 2 as b, 3 as c union all select 2, 5, 9"

    assert not ask(client, sql).all("figure")
    assert "c by a" in ask(client, sql, x="a", y="c").text


@ON_BOTH
def test_csv_is_whole_and_defused(client: TestClient, add_job: AddJob) -> None:
    texts = ["=1+1", "-x", "@a", 'a "b", c\r\nd', "-5", "译"]
    add_job(*(Line(str(place), text) for place, text in enumerate(texts)))
    address = f"/query.csv?sql={quote('select translation as t from v_documents order by position')}"
    assert client.get(address + "&limit=2").text.count("\n") == 3

    def cells(address: str) -> list[str]:
        answer = client.get(address)
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == 'attachment; filename="kvjobs-query.csv"'
        return [row[0] for row in csv.reader(io.StringIO(answer.content.decode(), newline=""))]

    assert cells(address) == ["t", "'=1+1", "'-x", "'@a", *texts[3:]]
    assert cells(address + "&raw=true") == ["t", *texts]


@ON_BOTH
def test_json_has_the_types_of_the_database(client: TestClient, finished_job: int) -> None:
    sql = "select job_id, sum(succeeded) as n, null as x, max(created_at) as at from v_jobs group by job_id"

    answer = client.get("/query.json", params={"sql": sql}).json()

    (row,) = answer["rows"]
    assert answer["columns"] == ["job_id", "n", "x", "at"]
    assert (row["job_id"], row["n"], row["x"], answer["is_cut"]) == (finished_job, 3, None, False)
    assert row["at"].startswith("20")


def test_json_without_a_question_is_the_saved_ones(client: TestClient) -> None:
    assert [one["name"] for one in client.get("/query.json").json()["saved"]] == list(saved_queries())


def test_a_file_that_would_be_too_large_is_refused(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "CSV_BYTES", 1000)
    numbers = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select i from n"

    answer = client.get("/query.csv", params={"sql": numbers})

    assert answer.status_code == 400
    assert "larger than" in answer.json()["error"]


@ON_BOTH
@pytest.mark.parametrize("path", ["/query", "/query.json", "/query.csv"])
def test_a_row_that_is_too_large_is_refused(client: TestClient, database: Database, path: str) -> None:
    large = "zeroblob(90000000)" if database.is_sqlite else "repeat(repeat('x', 1000000), 40)"

    answer = client.get(path, params={"sql": f"select {large} as x"})

    assert (answer.status_code, "32 MB" in answer.text) == (400, True), answer.text


def test_too_many_queries_at_once_wait_and_are_then_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "WAIT_S", 0.05)
    monkeypatch.setattr(query, "_slots", threading.BoundedSemaphore(1))
    with query._query_slot():
        refused = client.get("/query?sql=select+1")

    assert refused.status_code == 503
    assert "run already" in refused.text
    assert client.get("/query?sql=select+1").status_code == 200


def test_an_address_that_is_too_long_is_refused(client: TestClient) -> None:
    assert client.get("/query?" + urlencode({"sql": "select 1 --" + "x" * 15_000})).status_code == 400
    assert client.get("/query?" + urlencode({"sql": "select 1 --" + "x" * 17_000})).status_code == 414

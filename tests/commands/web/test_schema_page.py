"""/schema: every view with its columns, each with a query to begin with."""

from urllib.parse import parse_qs, urlsplit

from starlette.testclient import TestClient

from jobs.store.schema.reference import table_descriptions
from jobs.store.schema.views import VIEW_COLUMNS
from jobs.web.pages.schema import first_query
from tests.commands.web.test_query_page import Page
from tests.databases import ON_BOTH


@ON_BOTH
def test_every_view_and_table_has_its_columns_and_a_query_that_runs(client: TestClient, finished_job: int) -> None:
    page = Page(client.get("/schema").text)

    names = [*VIEW_COLUMNS, *table_descriptions()]
    assert [found["id"] for found in page.all("details")] == names
    links = [found["href"] for found in page.all("a", **{"class": "button"})]
    assert [parse_qs(urlsplit(link).query)["sql"] for link in links] == [[first_query(name)] for name in names]
    for link in links:
        assert client.get(str(link)).status_code == 200, link
    for view in VIEW_COLUMNS.values():
        for column in view.columns:
            assert column in page.texts


def test_the_schema_is_json_too(client: TestClient) -> None:
    found = client.get("/schema.json").json()

    assert found["views"]["v_jobs"]["columns"]["documents"]["unit"] == "documents"
    assert list(found["tables"]) == list(table_descriptions())

"""The pages of the stages of a chain."""

import re
from pathlib import Path

from starlette.testclient import TestClient

from jobs.store.database import Database
from tests.command_line import Kvjobs
from tests.messages import line_with
from tests.small_chains import KEPT, SCORED, begin, finish, finish_all
from tests.store.leasing import take


def test_the_page_of_a_stage_links_all_stages_and_says_how_far_each_is(
    client: TestClient, database: Database, tmp_path: Path
) -> None:
    begin(database, tmp_path, SCORED, KEPT, bad_line=True)
    finish(database, take(database), failing=frozenset({4}))

    page = client.get("/jobs/2").text

    chain = page[page.index('<ol class="chain">') : page.index("</ol>", page.index('<ol class="chain">'))]
    assert re.findall(r'href="/jobs/(\d+)"', chain) == ["1", "2", "3"]
    assert chain.count('aria-current="page"') == 1
    assert line_with(chain, "5 of 7 ", "1 failed", "1 rejected")
    assert line_with(chain, "0 of 7 ", "2 skipped")
    assert line_with(page, "Stage 2 ", "3. ", "whole chain")
    assert "kvjobs export 1 --chain -o FILE" in page


def test_every_page_of_every_stage_is_there(client: TestClient, database: Database, tmp_path: Path) -> None:
    begin(database, tmp_path, SCORED, KEPT)
    finish_all(database)

    for job in (1, 2, 3):
        for page in ("", "/documents", "/documents/d0", "/documents?status=skipped", "/shards", "/actions"):
            assert client.get(f"/jobs/{job}{page}").status_code == 200, (job, page)
            assert client.get(f"/jobs/{job}.json").status_code == 200
    assert client.get("/jobs/3/documents?min_length=2").status_code == 400, "what a filter keeps has no length"
    assert "What a filter keeps has no length" not in client.get("/jobs/3/documents").text


def test_the_page_of_a_filter_names_no_model_and_no_start(
    client: TestClient, database: Database, tmp_path: Path
) -> None:
    begin(database, tmp_path, SCORED, KEPT)

    of_filter, of_scores = client.get("/jobs/3").text, client.get("/jobs/2").text

    assert [f"<dt>{name}</dt>" in of_scores for name in ("Model", "Started")] == [True, True]
    assert [f"<dt>{name}</dt>" in of_filter for name in ("Model", "Started")] == [False, False]


def test_the_page_has_the_command_that_submits_the_chain_again(
    client: TestClient, kvjobs: Kvjobs, database: Database, tmp_path: Path
) -> None:
    begin(database, tmp_path, SCORED, KEPT)

    again = client.get("/jobs/3.json").json()["commands"]["again"]

    assert "--task translate --model tiny --then 'score --model lm'" in again
    assert "--then 'filter perplexity < 50 and lang <> " in again

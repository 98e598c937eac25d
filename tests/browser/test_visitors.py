"""What a visitor does on the pages: filter, act, watch a job run; and what hostile texts cannot do."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import HOSTILE, Dashboard, Visit, playwright


def test_typing_into_the_filter_narrows_the_list_and_changes_the_address(visit: Visit) -> None:
    visited = visit("/jobs")
    page = visited.page

    page.get_by_label(re.compile("Name, corpus")).fill("ranking")

    page.wait_for_url(re.compile("search=ranking"))
    playwright.expect(page.locator("#found tbody tr")).to_have_count(1)
    assert visited.problems == []
    page.reload()
    assert page.locator("#found tbody tr").count() == 1, "the address holds the filter"


def test_a_list_read_anew_does_not_replace_what_a_filter_found_meanwhile(visit: Visit) -> None:
    page = visit("/jobs").page
    held: list[playwright.Route] = []
    page.route(re.compile("/jobs$"), lambda route: held.append(route))
    page.evaluate("void show('another moment')")

    page.get_by_label(re.compile("Name, corpus")).fill("ranking")
    rows = page.locator("#found tbody tr")
    playwright.expect(rows).to_have_count(1)
    held[0].continue_()
    while page.evaluate("isReading"):
        page.wait_for_timeout(10)

    assert rows.count() == 1


def test_a_job_is_paused_and_resumed_after_a_question(visit: Visit, dashboard: Dashboard) -> None:
    visited = visit("/jobs/{waiting}")
    page = visited.page

    page.get_by_role("link", name="Pause").click()
    page.get_by_label(re.compile("Reason")).fill("<b>lunch</b>")
    page.get_by_role("button", name="Pause the job").click()
    assert page.locator(".state").first.text_content() == "paused"
    assert "<b>lunch</b>" in (page.text_content("main") or "")

    page.get_by_role("link", name="Resume").click()
    page.get_by_role("button", name="Resume the job").click()
    assert page.locator(".state").first.text_content() == "waits for a worker"
    assert visited.problems == []


def test_a_folder_is_sent_and_what_is_wrong_is_said_while_it_stays_chosen(visit: Visit, tmp_path: Path) -> None:
    for name in ("manual/ui/app.properties", "manual/.git/c.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("greeting=Rain on Monday.\n" + "long=" + "Snow" * 40 + "\n")
    page = visit("/jobs/new").page
    page.locator("input[name=folder]").set_input_files(tmp_path / "manual")

    page.get_by_role("button", name="Count only").click()
    page.locator("#dry-run").wait_for()
    page.locator("input[name=priority]").fill("soon")
    page.get_by_role("button", name="Submit").click()
    assert "soon" in (page.locator("#problem").text_content() or "")
    page.locator("input[name=priority]").fill("low")
    page.get_by_role("button", name="Submit").click()

    page.wait_for_url(re.compile(r"/jobs/\d+$"))
    assert page.locator("#files tbody th").all_text_contents() == ["manual/ui/app.properties"]
    page.set_viewport_size({"width": 380, "height": 900})
    page.get_by_role("link", name="manual/ui/app.properties", exact=True).click()
    page.get_by_role("link", name="manual/ui/app.properties#long", exact=True).click()
    page.locator(".units").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download the file").click()
    assert saved.value.suggested_filename == "app.properties"


@pytest.fixture
def no_other_work(dashboard: Dashboard) -> Iterator[None]:
    """An embedded worker takes no shard of the job that waits, before it is asked to stop."""
    dashboard.kvjobs("pause", "waiting")
    yield
    dashboard.kvjobs("resume", "waiting")


@pytest.mark.usefixtures("no_other_work")
def test_counters_change_while_a_worker_runs(visit: Visit, dashboard: Dashboard) -> None:
    name = "live"
    corpus = dashboard.home / "live.jsonl"
    corpus.write_text('{"text": "Fog is expected over Alden."}\n' * 3, encoding="utf-8")
    dashboard.kvjobs("submit", corpus, "--name", name, "--priority", "high")
    page = visit("/").page
    progress = page.locator("tr", has_text=name).locator(".progress small")
    assert progress.text_content() == "0.0 %"

    dashboard.kvjobs("watch", name, "--work", "-o", dashboard.home / "live.out.jsonl")

    page.wait_for_function(
        "name => [...document.querySelectorAll('tr')].some(row => row.textContent.includes(name)"
        " && row.querySelector('.progress small')?.textContent === '100.0 %')",
        arg=name,
        timeout=10_000,
    )


@pytest.mark.usefixtures("no_other_work")
def test_the_page_of_a_job_is_shown_anew_as_a_whole_and_keeps_what_a_visitor_did(
    visit: Visit, dashboard: Dashboard
) -> None:
    """Every figure follows the job: the sentence, the tiles, the buttons, the parts; a fold stays as it was set."""
    corpus = dashboard.home / "anew.jsonl"
    corpus.write_text('{"text": "Rain is expected over Alden."}\n' * 3, encoding="utf-8")
    dashboard.kvjobs("submit", corpus, "--name", "anew", "--priority", "high")
    visited = visit(f"/jobs/{json.loads(dashboard.kvjobs('show', 'anew', '--json'))['job_id']}")
    page = visited.page
    page.locator("#shards > summary").click()
    page.locator(".crumbs a").first.focus()

    dashboard.kvjobs("watch", "anew", "--work", "-o", dashboard.home / "anew.out.jsonl")

    page.locator(".job-head .state", has_text="done").wait_for(timeout=10_000)
    assert page.locator(".tile-value").first.text_content() == "3"
    assert "3 of 3 documents ok" in (page.locator(".lead").text_content() or "")
    assert page.locator(".banner").count() == 0 or "anew" not in (page.locator(".banner").text_content() or "")
    assert page.locator("#speed .plot svg").count() == 1, "a chart that was not there is drawn"
    assert page.locator("#shards").get_attribute("open") is None
    assert page.evaluate("document.activeElement.closest('.crumbs') !== null"), "the focus stays where it was"
    assert "done" in (page.locator("[data-said]").text_content() or "")
    assert visited.problems == []


def test_ticked_jobs_are_compared(visit: Visit, dashboard: Dashboard) -> None:
    visited = visit("/jobs")
    page = visited.page
    page.get_by_label(f"Job {dashboard.jobs['translation']}", exact=True).check()
    page.get_by_label(f"Job {dashboard.jobs['hostile']}", exact=True).check()

    page.get_by_role("button", name="Compare two").click()

    assert page.url.endswith(f"/compare?a={dashboard.jobs['translation']}&b={dashboard.jobs['hostile']}")
    assert visited.problems == []


def test_texts_of_documents_are_texts(visit: Visit, dashboard: Dashboard) -> None:
    for path in (
        "/jobs/{hostile}",
        "/query?sql=select+*+from+v_documents+where+job_id=" + str(dashboard.jobs["hostile"]),
    ):
        visited = visit(path)
        visited.page.wait_for_timeout(300)
        assert visited.page.evaluate("window.hacked") is None
        assert visited.problems == []
    assert HOSTILE[0] in (visited.page.text_content("main") or "")


def test_another_site_gets_no_answer_and_its_link_runs_no_query(visit: Visit, dashboard: Dashboard) -> None:
    page = visit("/jobs").page
    asked = f"{dashboard.address}/query.json?sql=select+1"
    link = f"{dashboard.address}/query?sql=select+42"
    there = f'<img src="{asked}"><script src="{asked}"></script><iframe src="{link}"></iframe><a href="{link}">go</a>'
    page.route("http://elsewhere.example/", lambda route: route.fulfill(body=there, content_type="text/html"))
    codes: list[int] = []
    page.on("response", lambda answer: codes.append(answer.status) if answer.url.startswith(asked[:-1]) else None)

    page.goto("http://elsewhere.example/", wait_until="load")
    assert set(codes) <= {403}, "the browser itself may refuse, and then nothing comes"
    page.get_by_role("link", name="go").click()
    page.wait_for_url(link)

    assert page.locator("#answer-title").count() == 0
    assert "has not been run" in (page.text_content("main") or "")
    page.get_by_role("button", name="Run").click()
    page.wait_for_selector("#answer-title")


def test_pointing_at_a_word_or_reaching_it_by_keyboard_shows_the_words_that_belong_to_it(visit: Visit) -> None:
    visited = visit("/jobs/{hostile}/documents/?position=0")
    page = visited.page
    sentence = page.locator(".sentence:has(.word)").first
    source, target = (sentence.locator(f"[data-side={side}] .word") for side in ("source", "target"))

    def belonging(word: "playwright.Locator") -> list[str]:
        numbers = (word.get_attribute("data-links") or "").split()
        return [target.nth(int(number)).inner_text() for number in numbers]

    linked = next(word for word in source.all() if belonging(word))
    linked.hover()
    assert page.locator(".belongs").all_inner_texts() == [linked.inner_text(), *belonging(linked)]
    page.mouse.move(0, 0)
    assert page.locator(".belongs").count() == 0

    source.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(":focus").inner_text() == source.nth(1).inner_text()
    assert page.locator(".belongs").all_inner_texts() == [source.nth(1).inner_text(), *belonging(source.nth(1))]
    assert page.get_by_role("status").filter(has_text=f"{source.nth(1).inner_text()}: ").count() == 1
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == target.first.inner_text()
    assert visited.problems == []

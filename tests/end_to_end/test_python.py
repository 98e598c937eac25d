"""`import kvjobs`: what a program submits is the job that the command line sees, and comes back as it was given."""

import asyncio
import datetime as dt
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from kvjobs import Client, KvjobsError, NotFoundError, SpecError, connect
from tests.command_line import Kvjobs
from tools.demo.examples import lines

TEXTS = [orjson.loads(line)["text"] for line in lines(6, seed=3, references=False)]


def test_the_same_rows_and_options_are_the_same_job_as_a_file_of_them(
    kv: Client, kvjobs: Kvjobs, tmp_path: Path
) -> None:
    rows = [{"id": f"b{number}", "text": text, "n": number} for number, text in enumerate(TEXTS)]

    job = kv.submit((row for row in rows), name="night").wait(60)
    again = kv.submit(rows)

    assert (job.prior_state, again.prior_state, again.id, again.name) == ("new", "complete", job.id, "night")
    assert (job.state, job.ok, job.info["documents"]) == ("done", True, len(TEXTS))
    assert kv.submit(rows, again=True).id != job.id
    assert kv.submit(rows, beam_size=2).id not in (job.id, job.id + 1)
    exported = kvjobs("export", "night").out.splitlines()
    assert [result["translation"] for result in job.results()] == [
        row["translation"] for row in map(orjson.loads, exported)
    ]
    assert [result["id"] for result in job.results(where="n > 3")] == ["b4", "b5"]


def test_a_key_names_a_job_and_options_are_those_of_the_command_line(kv: Client) -> None:
    first = kv.submit(TEXTS[:1], key="k", priority="low")

    assert kv.submit(TEXTS[1:], key="k", priority="low").id == first.id
    assert first.info["priority"] == -10
    with pytest.raises(SpecError, match="beamsize"):
        kv.submit(TEXTS, beamsize=3)
    with pytest.raises(SpecError, match="strict is the same as max_rejected"):
        kv.submit(TEXTS, strict=True, max_rejected=1)
    with pytest.raises(SpecError, match="'k'"):
        kv.submit(TEXTS, key="k", beam_size=2)
    with pytest.raises(NotFoundError):
        kv.submit(TEXTS, model="demo-en-zhh")


@pytest.mark.parametrize("rows", [5, {"id": 1, "text": "x"}, [3], [{"text": object()}], b"text", [{1: "x"}]])
def test_what_is_no_row_is_refused_and_makes_no_job(kv: Client, rows: Any) -> None:
    with pytest.raises(SpecError):
        kv.submit(rows)
    assert kv.jobs() == []


def test_types_that_json_lacks_come_back(kv: Client) -> None:
    row = {
        "id": 7,
        "text": TEXTS[0],
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=dt.UTC),
        "on": dt.date(2026, 1, 2),
        "price": Decimal("1.10"),
        "raw": b"\0\xff",
        "key": uuid.UUID(int=5),
        "list": [1, 2.5, None, {"a": "b"}],
        "mixed": None,
    }

    (result,) = kv.submit([row, {"id": 8, "text": ""}], max_rejected=1).wait(60).results(only="ok")

    assert {name: result[name] for name in row if name != "text"} == {k: v for k, v in row.items() if k != "text"}
    assert type(result["id"]) is int


def test_a_table_comes_back_with_the_types_of_its_columns(kv: Client) -> None:
    pa = pytest.importorskip("pyarrow")
    day = pa.date32()
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "text": TEXTS[:2],
            "at": pa.array([1_767_323_045_000, None], pa.timestamp("ms")),
            "day": pa.array([dt.date(2026, 1, 2), None], day),
            "price": pa.array([Decimal("1.10"), Decimal("2.00")], pa.decimal128(9, 2)),
            "small": pa.array([1, -2], pa.int8()),
            "raw": pa.array([b"\0\xff", None], pa.binary()),
            "lang": pa.array(["de", "en"]).dictionary_encode(),
            "tags": pa.array([["a"], []], pa.list_(pa.string())),
            "box": pa.array(
                [{"x": 1, "at": dt.date(2026, 1, 1)}, None], pa.struct({"x": pa.int32(), "at": pa.date32()})
            ),
            "took": pa.array([5, 6], pa.duration("ms")),
        }
    )

    back = kv.submit(table).wait(60).to_arrow()

    names = [name for name in table.column_names if name not in ("text",)]
    assert {name: back.schema.field(name).type for name in names} == {
        name: table.schema.field(name).type for name in names
    }
    assert back.select(names).to_pylist() == table.select(names).to_pylist()
    assert all(back["translation"].to_pylist())


def test_one_call_gives_results_in_the_order_of_the_texts(kv: Client) -> None:
    translated = kv.translate(TEXTS[:3])
    scores = kv.score(TEXTS[:2])
    ranked = kv.rerank("snow", TEXTS[:3])

    assert translated == [kv.translate([text])[0] for text in TEXTS[:3]]
    assert [score["perplexity"] > 1 for score in scores] == [True, True]
    assert sorted(place["index"] for place in ranked) == [0, 1, 2]
    assert [TEXTS[place["index"]] for place in ranked] == [place["text"] for place in ranked]
    assert kv.translate([]) == []
    with pytest.raises(SpecError):
        kv.translate("one text")
    with pytest.raises(KvjobsError, match="text 1 "):
        kv.translate([TEXTS[0], " "])


def test_actions_and_lists_are_those_of_the_commands(kv: Client, kvjobs: Kvjobs, tmp_path: Path) -> None:
    job = kv.submit(TEXTS, model="demo-en-zh", name="held", task="translate").wait(60)

    assert [other.id for other in kv.jobs("done")] == [job.id]
    assert kv.job("held").id == kv.job().id == job.id
    assert "held" in job._repr_html_()
    with pytest.raises(SpecError):
        job.pause()
    assert job.export(tmp_path / "out.csv.gz", extras=["text"]) > 0
    assert kvjobs("export", job.id, "-o", tmp_path / "cli.csv.gz", "--with", "text").exit_code == 0
    assert (tmp_path / "out.csv.gz").read_bytes()[10:] == (tmp_path / "cli.csv.gz").read_bytes()[10:]
    assert {model["name"] for model in kv.models()} == {"demo-en-zh", "demo-lm"}


def test_a_coroutine_waits_while_its_loop_goes_on(kv: Client) -> None:
    async def follow() -> list[dict[str, Any]]:
        job = await kv.submit(TEXTS, again=True).wait_async(60)
        return [result async for result in job.results_async()]

    assert len(asyncio.run(follow())) == len(TEXTS)


def test_waiting_ends_with_its_time_and_the_job_goes_on(home: Path, empty_database: Path) -> None:
    with connect(home=str(home)) as kv:
        job = kv.submit(TEXTS)
        with pytest.raises(TimeoutError):
            job.wait(0.05, work=False)
        assert job.state == "waiting"


def test_the_import_loads_no_database_and_no_engine() -> None:
    code = (
        "import sys, kvjobs; print([m for m in ('sqlalchemy', 'onnxruntime', 'numpy', 'orjson') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"

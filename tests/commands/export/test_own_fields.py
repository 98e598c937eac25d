"""The corpus' own fields in `--where` and `totals --by`, under their names."""

import json
from typing import Any

import pytest

from jobs.outcome import Score
from jobs.tasks.score import ScoreOptions
from jobs.tasks.task import Task
from tests.command_line import Kvjobs
from tests.databases import ON_BOTH
from tests.messages import line_with
from tests.rows import AddJob, Line


@pytest.fixture
def own_fields(add_job: AddJob) -> int:
    """Three scored documents with fields of every kind."""
    score = Score(6.0, 3, 2, 12)
    return add_job(
        Line(
            "a", result=score, fields={"kind": "fluent", "n": 5, "meta": {"lang": "de"}, "text": "x", "my field": True}
        ),
        Line("b", result=score, fields={"kind": "noise", "n": "5", "meta": {"lang": "fr"}, "a.b": 1}),
        Line("c", result=score, fields={"kind": 7, "n": 5.0, "meta": None}),
        task=Task.SCORE,
        options=ScoreOptions(),
    )


def ids(out: str) -> str:
    return "".join(json.loads(line)["id"] for line in out.splitlines())


CONDITIONS = [
    ("kind = 'fluent'", "a"),
    ("kind <> 'fluent'", "b"),
    ("n > 3", "ac"),
    ("n = '5'", "b"),
    ("number(n) = 5", "abc"),
    ("meta.lang = 'de' and perplexity < 50", "a"),
    ("meta.lang is null", "c"),
    ('"my field"', "a"),
    ("a.b = 1", "b"),
    ("fields.text = 'x'", "a"),
    ("text = 'x'", ""),
    ("json_extract(fields, '$.meta.lang') in ('fr', 'it')", "b"),
    ("upper(kind) like 'flu%' or kind in (7, 'x')", "ac"),
    ("id = 'a' or line = 2", "ab"),
    ("finished_at > '2020-01-01'", "abc"),
    ("finished_at < '2020-01-01T00:00:00+02:00'", ""),
    ("num_words / num_tokens = 0 and n / 2 > 2.25", "ac"),
]


@ON_BOTH
def test_a_field_of_the_corpus_is_a_column_with_the_type_of_its_value(kvjobs: Kvjobs, own_fields: int) -> None:
    for condition, expected in CONDITIONS:
        result = kvjobs("export", own_fields, "--where", condition)
        assert (result.exit_code, ids(result.out)) == (0, expected), condition


REFUSED = [
    ("nosuch = 1", 'no document has \'nosuch\'; there are kind, n, meta, fields.text, "my field", "a.b"'),
    ("meta.nosuch = 1", "no document has 'meta.nosuch'"),
    ("fields->>'kind' = 'noise'", "write kind, without -> and ->>"),
    ("fields->'meta'->>'lang' = 'de'", "write meta.lang,"),
    ("json_extract(fields, 'kind') = 'x'", "a path like '$.meta.lang'"),
    ('kind = "fluent"', "write a text in single quotes: 'fluent'"),
    ("end = 1", 'write a field of this name in double quotes: "end"'),
]


@ON_BOTH
def test_an_unknown_field_is_refused_with_the_existing_fields(kvjobs: Kvjobs, own_fields: int) -> None:
    for condition, message in REFUSED:
        result = kvjobs("export", own_fields, "--where", condition)
        assert (result.exit_code, result.out) == (2, ""), condition
        assert message in result.err


@ON_BOTH
def test_a_field_that_only_a_later_document_has_is_found(kvjobs: Kvjobs, add_job: AddJob) -> None:
    lines = [Line(f"d{number}", "译", fields={"n": 1}) for number in range(120)]
    job = add_job(*lines, Line("z", "译", fields={"late": {"n": 2}}))

    assert ids(kvjobs("export", job, "--where", "late.n = 2").out) == "z"


@ON_BOTH
def test_totals_can_be_grouped_by_a_field_of_any_name(kvjobs: Kvjobs, own_fields: int) -> None:
    def groups(field: str) -> list[tuple[Any, int]]:
        return [(row["group"], row["documents"]) for row in kvjobs("totals", own_fields, "--by", field, "--json").json]

    assert groups("n") == [(5, 2), ("5", 1)]
    assert groups("meta.lang") == [("de", 1), ("fr", 1), (None, 1)]
    assert groups("my field") == groups('"my field"') == [(True, 1), (None, 2)]
    assert groups("a.b") == [(1, 1), (None, 2)]
    assert groups("text") == groups("fields.text") == [("x", 1), (None, 2)]
    refused = kvjobs("totals", own_fields, "--by", 'no"such')
    assert refused.exit_code == 2
    assert line_with(refused.err, "'no\"such'", "kind, n, meta")


@ON_BOTH
def test_totals_by_a_field_show_every_value_unchanged(kvjobs: Kvjobs, add_job: AddJob) -> None:
    big = 12345678901234567890123
    values = [10, 9, 0.12345678, big, {"n": big}, True, "x", None]
    lines = (Line(f"d{i}", result=Score(6.0, 3, 2, 12), fields={"v": value}) for i, value in enumerate(values))
    job = add_job(*lines, task=Task.SCORE, options=ScoreOptions())

    found = kvjobs("totals", job, "--by", "v")
    shown = [line.split("  ")[0] for line in found.out.splitlines()[1:]]
    as_json = [row["group"] for row in kvjobs("totals", job, "--by", "v", "--json").json]

    assert (shown[:3], as_json[:3]) == (["0.12345678", "9", "10"], [0.12345678, 9, 10])
    assert (
        shown[3] == str(big) if isinstance(as_json[3], int) else float(shown[3]) == float(big)
    )  # SQLite reads it as a double
    assert as_json[3] == pytest.approx(big, rel=1e-15)
    assert shown[4:] == ["x", "true", f'{{"n":{big}}}', "-"]
    assert as_json[4:] == ["x", True, {"n": big}, None]

"""The export format is read from the file name, and never guessed."""

from pathlib import Path

import pytest

from jobs.errors import SpecError
from jobs.export.export_formats import Format
from jobs.export.export_options import Export, format_of


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", Format.JSONL),
        ("a.ndjson", Format.JSONL),
        ("a.run.gz", Format.TREC),
        ("a.TXT.zst", Format.TXT),
        ("results", Format.JSONL),
        ("a.gz", Format.JSONL),
        ("/dev/fd/63", Format.JSONL),
        ("a folder.d/results", Format.JSONL),
    ],
)
def test_the_name_of_a_file_gives_its_format(name: str, form: Format) -> None:
    assert format_of(Path(name)) is form


@pytest.mark.parametrize(
    "name", ["a.xlsx", "a.srt", "a.json", "a.csv.bak", "a.jsonl.rar", "a.srt.gz", "a.csv.gz.gz", "a.v2", "a.jsonl "]
)
def test_an_unknown_suffix_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(SpecError, match=r"\.jsonl, \.ndjson, \.csv, \.tsv, \.txt, \.run, \.parquet"):
        format_of(Path(name))
    assert Export(form=Format.CSV).format_for(Path(name)) is Format.CSV

"""The format that the name of a file stands for."""

from pathlib import Path

from jobs.cli.export.export_file import format_of
from jobs.cli.export.export_formats import Format


def test_a_packed_name_tells_its_format_too() -> None:
    assert [format_of(Path(name)) for name in ("a.run.gz", "a.TXT.zst", "a.gz", "a.csv.bak")] == [
        Format.TREC,
        Format.TXT,
        Format.JSONL,
        Format.JSONL,
    ]

"""The export format is read from the file name."""

from pathlib import Path

from jobs.export.export_formats import Format
from jobs.export.export_options import format_of


def test_the_name_of_a_compressed_file_gives_its_format_too() -> None:
    assert [format_of(Path(name)) for name in ("a.run.gz", "a.TXT.zst", "a.gz", "a.csv.bak")] == [
        Format.TREC,
        Format.TXT,
        Format.JSONL,
        Format.JSONL,
    ]

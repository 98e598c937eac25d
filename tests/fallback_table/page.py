"""The table in docs/providers.md: `python -m tests.fallback_table.page` tries every fault and rewrites it. A test tries
each again and compares."""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from jobs.store.database import Database
from tests.fallback_table.fault import DOCUMENTS, Fault
from tests.fallback_table.local_faults import LOCAL_FAULTS, NOBODY
from tests.fallback_table.ollama_faults import OLLAMA_FAULTS
from tests.fallback_table.openai_faults import OPENAI_FAULTS
from tests.fallback_table.trial import Recorded, sentence, try_out, write_models
from tests.places import CHECKOUT

FAULTS = [*OPENAI_FAULTS, *OLLAMA_FAULTS, *LOCAL_FAULTS, *NOBODY]
PAGE = CHECKOUT / "docs" / "providers.md"
COMMAND = "python -m tests.fallback_table.page"
BEGIN, END = f"<!-- made by: {COMMAND} -->\n", "<!-- end -->\n"
HEAD = ("| provider | what goes wrong | job | recorded | the sentence | who answered |", "|---|---|---|---|---|---|")
NOBODY_ANSWERED = "nobody: all fail"


def row(fault: Fault, found: Recorded, folder: Path) -> str:
    """A line of the table, made of what was recorded."""
    codes, text = told(fault, found)
    recorded = ", ".join(f"`{code}`" for code in codes)
    cells = (fault.provider, fault.what, fault.job, recorded, text)
    shown = [str(cell).replace("|", "\\|").replace("<", "&lt;") for cell in (*cells, answerers(found))]
    return sentence(f"| {' | '.join(shown)} |", folder)


def told(fault: Fault, found: Recorded) -> tuple[Sequence[str], str]:
    """The codes on record, and the sentence of the first."""
    if fault.provider in found.skipped:
        return ["skipped"], found.skipped[fault.provider]
    if found.failed:
        code, message = found.failed[0]
        return [code], message
    if found.answered.get("none"):
        kept = found.results[0]
        return [kept.flags], json.loads(kept.candidates)[0]["error"]
    handed_over = found.handed_over[fault.provider]
    return list(handed_over), next(text for _, text in handed_over.values())


def answerers(found: Recorded) -> str:
    """`openai 3, onnx 5`, or the one that answered all."""
    parts = [f"{name} {number}" for name, number in found.answered.items()]
    if found.answered == {"none": DOCUMENTS}:
        return "nobody: the original order"
    if not parts:
        return NOBODY_ANSWERED
    if len(found.failed):
        parts.append(f"{len(found.failed)} failed")
    return ", ".join(parts)


def with_table(page: str, rows: Iterator[str]) -> str:
    """The page with its table brought up to date."""
    head, _, rest = page.partition(BEGIN)
    table = "\n".join((*HEAD, *rows))
    return f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def rows_of(page: str) -> list[str]:
    """The lines of the page's table."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    return [line for line in table.splitlines() if line.startswith("|")][len(HEAD) :]


def cells_of(line: str) -> list[str]:
    """The cells of a line of the table."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def _tried(root: Path) -> Iterator[str]:
    models, database = write_models(root), Database.open(f"sqlite:///{root / 'kvjobs.db'}")
    for number, fault in enumerate(FAULTS):
        folder = root / str(number)
        folder.mkdir()
        yield row(fault, try_out(fault, folder, database, models), folder)
    database.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        made = with_table(PAGE.read_text(encoding="utf-8"), _tried(Path(name)))
    PAGE.write_text(made, encoding="utf-8")

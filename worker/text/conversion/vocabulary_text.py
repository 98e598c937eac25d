"""
The vocabularies that are text: vocab.json with merges.txt, and vocab.txt.

Knows: the files, as the tokenizer classes of transformers 4.57 read them. Does not know: what pieces are for.
"""

from collections.abc import Collection
from pathlib import Path

from jobs.errors import ModelError
from worker.text.file_names import VOCAB_JSON
from worker.text.tokenizer_files import read_object

_AGAIN = "download it again"


def read_pieces(folder: Path) -> dict[str, int]:
    """The pieces in vocab.json and their ids, which are 0, 1, 2 ... in any order. Raises ModelError."""
    file = folder / VOCAB_JSON
    pieces = read_object(file)
    for piece, piece_id in pieces.items():
        if type(piece_id) is not int:
            raise ModelError(f"{file} gives piece {piece!r:.40} the id {piece_id!r:.40}, which is no number: {_AGAIN}")
    if not pieces:
        raise ModelError(f"{file} has no pieces: {_AGAIN}")
    by_id = {piece_id: piece for piece, piece_id in pieces.items()}
    missing = next((number for number in range(len(pieces)) if number not in by_id), None)
    if missing is not None:
        raise ModelError(f"{file} has {len(pieces):,} pieces, and none with the id {missing}: {_AGAIN}")
    return pieces


def read_numbered_lines(file: Path) -> dict[str, int]:
    """The pieces in vocab.txt, one a line, whose ids are 0, 1, 2 ... Raises ModelError."""
    lines = read_lines(file)
    pieces: dict[str, int] = {}
    for number, piece in enumerate(lines if lines[-1] else lines[:-1]):
        if piece in pieces:
            raise ModelError(f"{file}, line {number + 1}: {piece!r:.60} is there twice: {_AGAIN}")
        pieces[piece] = number
    if not pieces:
        raise ModelError(f"{file} has no pieces: {_AGAIN}")
    return pieces


def read_merges(file: Path, pieces: Collection[str], *, skips_ends: bool) -> list[list[str]]:
    """The pairs of pieces in merges.txt, in their order.

    `skips_ends`: whatever the first line holds, and a line that the file does not end, are no pairs, as GPT-2's class
    reads them; else the first line is none if it names a version, and empty lines are none, as Qwen2's class does.
    Raises ModelError for a line that is no pair of pieces or is there twice.
    """
    lines = read_lines(file)
    if skips_ends:
        numbered = [*enumerate(lines, start=1)][1:-1]
    else:
        numbered = [
            (number, line)
            for number, line in enumerate(lines, start=1)
            if line.strip() and not (number == 1 and line.strip().startswith("#version:"))
        ]
    merges, seen = [], set()
    for number, line in numbered:
        pair = line.split()
        where = f"{file}, line {number}: "
        if len(pair) != 2:
            raise ModelError(f"{where}{line!r:.60} is not two pieces with a space between them: {_AGAIN}")
        lacking = next((piece for piece in (*pair, "".join(pair)) if piece not in pieces), None)
        if lacking is not None:
            raise ModelError(f"{where}{line!r:.60} needs the piece {lacking!r:.40}, which {VOCAB_JSON} lacks: {_AGAIN}")
        if tuple(pair) in seen:
            raise ModelError(f"{where}{line!r:.60} is there twice: {_AGAIN}")
        seen.add(tuple(pair))
        merges.append(pair)
    return merges


def read_lines(file: Path) -> list[str]:
    """The lines of a text file; the last one is empty where the file ends with the end of a line. Raises ModelError."""
    try:
        return file.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError as error:
        raise ModelError(f"{file} is missing: it belongs to the model's tokenizer; {_AGAIN}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{file} is not UTF-8 (byte {error.start}): {_AGAIN}") from error
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror}") from error

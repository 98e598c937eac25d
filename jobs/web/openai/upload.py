"""A file that comes as multipart/form-data, written to the disk as it comes; refusals are those of OpenAI's API."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from fastapi import Request

from jobs.documents import quoted
from jobs.web.multipart import BrokenForm, FileForm, FormProblem, pieces_of_files
from jobs.web.openai.requests import ApiError
from jobs.web.uploads import write_pieces

FIELDS = ("purpose", "expires_after[anchor]", "expires_after[seconds]")
LONGEST_NAME = 255  # characters of the name of a file that are kept
CODES = {  # and the parameter at fault
    FormProblem.NO_FORM: ("invalid_content_type", None),
    FormProblem.UNREADABLE: ("invalid_form", None),
    FormProblem.INCOMPLETE: ("incomplete_form", None),
    FormProblem.MANY_FIELDS: ("too_many_parts", None),
    FormProblem.LONG_FIELDS: ("invalid_value", None),
    FormProblem.MANY_FILES: ("invalid_value", "file"),
}


async def receive_form(request: Request, folder: Path, file: BinaryIO) -> tuple[FileForm, int]:
    """Write the file of a form to `file`, on the disk of `folder`; its other fields, and the bytes of the file.

    Raises ApiError for a form that is none or is not whole, TransientError where the disk refuses, ClientDisconnect
    where the sender has gone."""
    form = FileForm(("file",), most_fields=10, most_text=4096)
    try:
        num_bytes = await write_pieces(_of_known_fields(request, form), file, folder)
    except BrokenForm as error:
        code, parameter = CODES[error.problem]
        raise ApiError(400, f"{str(error)[0].upper()}{str(error)[1:]}.", parameter, code) from None
    if form.file_name is None:
        raise ApiError(400, "Missing required parameter: 'file'.", "file", "missing_required_parameter")
    form.files[0].name = _plain_name(form.file_name)
    return form, num_bytes


async def _of_known_fields(request: Request, form: FileForm) -> AsyncIterator[bytes]:
    """The pieces of the file; a field that is not known is refused before the rest comes."""
    async for piece in pieces_of_files(request, form):
        _check_fields(form)
        yield piece
    _check_fields(form)


def _check_fields(form: FileForm) -> None:
    for name in form.texts:
        if name not in FIELDS:
            raise ApiError(400, f"Unknown parameter: {quoted(name)}.", name[:100], "unknown_parameter")


def _plain_name(given: str) -> str:
    """The name of a file, for people: without folders and what no terminal should get."""
    name = given.replace("\\", "/").rpartition("/")[2]
    return "".join(character for character in name if character.isprintable())[:LONGEST_NAME] or "file"

"""/v1/files: files that programs send, list, read and delete."""

import secrets
from typing import Any

import anyio
from fastapi import APIRouter, Request
from starlette.responses import FileResponse

from jobs.operations.upload_folder import FILE_ID, UploadFolder
from jobs.store.database import Database
from jobs.store.uploads import StoredFile, add_file, find_file, list_files, remove_file
from jobs.web.multipart import FileForm
from jobs.web.openai.requests import MOST_FILES, ApiError, changing, listed, not_found, owner_for, page_of
from jobs.web.openai.upload import receive_form

PURPOSES = ("batch", "user_data", "assistants", "vision", "fine-tune", "evals")  # that a sender may name
EXPIRY_S = range(3600, 30 * 86_400 + 1)

router = APIRouter(prefix="/v1/files")


@router.post("")
async def upload(request: Request) -> dict[str, Any]:
    """Write a file as it comes. It is there once this answers, and not before."""
    visitor, folder = changing(request), UploadFolder.of(request.app.state.settings)
    with folder.new_file() as file:
        form, num_bytes = await receive_form(request, folder.path, file)
        purpose, expires_after_s = _purpose(form), _expiry(form)
        file_id = f"file-{secrets.token_hex(16)}"

        def keep() -> StoredFile:
            folder.keep(file, file_id)
            return add_file(
                request.app.state.database,
                id=file_id,
                owner=visitor.name,
                filename=form.file_name or "",
                purpose=purpose,
                num_bytes=num_bytes,
                expires_after_s=expires_after_s,
            )

        return file_object(await anyio.to_thread.run_sync(keep))


@router.get("")
def list_all(request: Request) -> dict[str, Any]:
    page, database = page_of(request, MOST_FILES, MOST_FILES), request.app.state.database
    with database.reading() as connection:
        found = list_files(connection, page, request.query_params.get("purpose"))
    return listed([file_object(file) for file in found], page.limit)


@router.get("/{file_id}")
def show(request: Request, file_id: str) -> dict[str, Any]:
    return file_object(_find(request, file_id))


@router.get("/{file_id}/content")
def content(request: Request, file_id: str) -> FileResponse:
    """The bytes, as they lie on the disk of this process."""
    found = _find(request, file_id)
    path = UploadFolder.of(request.app.state.settings).find(file_id)
    if path is None:
        raise ApiError(
            404,
            f"The bytes of {file_id} are not on this machine: ask the dashboard that received it.",
            "id",
            "not_here",
        )
    return FileResponse(path, media_type="application/octet-stream", filename=found.filename)


@router.delete("/{file_id}")
def delete(request: Request, file_id: str) -> dict[str, Any]:
    changing(request)
    _find(request, file_id)
    if not remove_file(request.app.state.database, file_id):
        message = f"A batch has still to read {file_id}; cancel it, or wait until it is in progress."
        raise ApiError(409, message, "id", "file_in_use")
    UploadFolder.of(request.app.state.settings).delete(file_id)
    return {"id": file_id, "object": "file", "deleted": True}


def file_object(file: StoredFile) -> dict[str, Any]:
    """The file as OpenAI's clients read it."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.num_bytes,
        "created_at": int(file.created_at.timestamp()),
        "expires_at": None if file.expires_at is None else int(file.expires_at.timestamp()),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


def visible_file(request: Request, file_id: str) -> StoredFile | None:
    """The file of this id that the visitor may see."""
    database: Database = request.app.state.database
    if not FILE_ID.fullmatch(file_id):
        return None
    with database.reading() as connection:
        found = find_file(connection, file_id)
    owner = owner_for(request)
    return found if found is not None and owner in (None, found.owner) else None


def _find(request: Request, file_id: str) -> StoredFile:
    found = visible_file(request, file_id)
    if found is None:
        raise not_found("file", file_id)
    return found


def _purpose(form: FileForm) -> str:
    purpose = form.text("purpose")
    if not purpose:
        raise ApiError(400, "Missing required parameter: 'purpose'.", "purpose", "missing_required_parameter")
    if purpose not in PURPOSES:
        raise ApiError(400, f"'purpose' can be {', '.join(PURPOSES)}.", "purpose", "invalid_value")
    return purpose


def _expiry(form: FileForm) -> float | None:
    """Seconds until the file is deleted; None: never."""
    written = form.text("expires_after[seconds]")
    if not written:
        return None
    if form.text("expires_after[anchor]") not in ("", "created_at"):
        raise ApiError(400, "'expires_after.anchor' can be created_at.", "expires_after", "invalid_value")
    if not (written.isascii() and written.isdecimal() and len(written) < 10 and int(written) in EXPIRY_S):
        message = f"'expires_after.seconds' is a number from {EXPIRY_S.start} to {EXPIRY_S.stop - 1}."
        raise ApiError(400, message, "expires_after", "invalid_value")
    return float(written)

"""Errors as pages: what is wrong in a sentence, and the right status code."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from jobs.errors import KvjobsError, NotFoundError, SpecError, StoreError
from jobs.web.rendering import JsonResponse, render, wants_json

STATUS_CODES: tuple[tuple[type[KvjobsError], int], ...] = (
    (NotFoundError, 404),
    (SpecError, 400),
    (StoreError, 503),
)


def handle_errors(app: FastAPI) -> None:
    """Answer errors of kvjobs, of the address and of its parameters with a page, or with JSON where that was asked."""

    @app.exception_handler(KvjobsError)
    def of_kvjobs(request: Request, error: KvjobsError) -> Response:
        return _problem(request, status_code_of(error), str(error))

    @app.exception_handler(RequestValidationError)
    def of_a_parameter(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return _problem(request, 400, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}")

    @app.exception_handler(HTTPException)
    def of_the_address(request: Request, error: HTTPException) -> Response:
        sentence = "there is no such page" if error.status_code == 404 else str(error.detail)
        return _problem(request, error.status_code, sentence)


def status_code_of(error: KvjobsError) -> int:
    """The status code of the answer that tells of an error."""
    return next((code for kind, code in STATUS_CODES if isinstance(error, kind)), 500)


def _problem(request: Request, code: int, sentence: str) -> Response:
    if wants_json(request):
        return JsonResponse({"error": sentence}, code)
    return render(request, "problem.html", {"code": code, "sentence": sentence}, status_code=code)

"""POST /api/glossaries: stores terms that do not fit into an address, for submits that name them by their digest."""

from dataclasses import dataclass
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Request

from jobs.choices import Role
from jobs.errors import SpecError
from jobs.store.glossaries import store_glossary
from jobs.tasks.option import option, options_of
from jobs.terms.glossary import Glossary, read_glossary, read_kept_terms, text_of_bytes
from jobs.web.api.answers import Json
from jobs.web.api.openapi import described
from jobs.web.api.query import read_query
from jobs.web.api.schemas import GLOSSARY, STORED_GLOSSARY
from jobs.web.pages.actions import refuse_read_only
from jobs.web.visitors import require

router = APIRouter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the terms are for."""

    no_translate: bool = option(False, "They are terms that stay as they are, one a line.")


OF_TERMS = {declared.name: declared for declared in options_of(Terms)}


@router.post(
    "/api/glossaries",
    **described("Store terms, and name them", query=OF_TERMS, body=GLOSSARY, answer=STORED_GLOSSARY),
)
async def store(request: Request) -> Json:
    require(request, Role.PRODUCER)
    refuse_read_only(request)
    asked = Terms(**read_query(request, OF_TERMS))
    return Json(await to_thread.run_sync(_store, request, await request.body(), asked))


def _store(request: Request, body: bytes, asked: Terms) -> dict[str, Any]:
    text = text_of_bytes(body)
    glossary: Glossary = read_kept_terms(text) if asked.no_translate else read_glossary(text)
    if glossary.content is None:
        raise SpecError(f"the body is the name of a glossary, {glossary}; send its terms")
    with request.app.state.database.writing() as connection:
        store_glossary(connection, glossary)
    return {"glossary": str(glossary), "terms": glossary.num_terms}

"""A service that translates a text a request, while kvjobs batches what comes at the same time.

pip install kvjobs uvicorn && uvicorn examples.service:app
curl -X POST "localhost:8000/translate" -H "content-type: application/json" -d '{"text": "Snow will fall."}'
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import kvjobs


class Text(BaseModel):
    text: str


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    with kvjobs.connect() as kv:  # an open job with a key: the next start of the service goes on with it
        app.state.job = kv.open(task="translate", model="demo-en-zh", key="service")
        yield
        app.state.job.flush()


app = FastAPI(lifespan=lifespan)


@app.post("/translate")
async def translate(asked: Text) -> dict[str, str]:
    try:
        result = await app.state.job.result_async(app.state.job.add(asked.text), timeout=30)
    except kvjobs.SpecError as error:
        raise HTTPException(422, str(error)) from None
    if result["status"] != "ok":
        raise HTTPException(500, result["error"]["message"])
    return {"translation": result["translation"]}

"""Parameters of addresses that several pages have."""

from typing import Annotated

from fastapi import Path

from jobs.store.report.job_summary import LARGEST_ID

JobId = Annotated[int, Path(ge=1, le=LARGEST_ID)]

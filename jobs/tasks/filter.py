"""Filtering: a condition keeps a document or not; without a model, between the stages of a chain."""

from jobs.tasks.kind import Kind, Words

FILTER = Kind(
    name="filter",
    table="passes",
    about="The result of a document of a filtering job: the filter keeps it. (The others have the status `skipped`.)",
    words=Words("document", "filter", "filtering", "kept"),
    main="kept",
    fields=(),
)

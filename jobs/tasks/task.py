"""The tasks of models, by name. Each is declared in the file of its name."""

import enum


class Task(enum.StrEnum):
    """What a job does with each document."""

    TRANSLATE = "translate"
    SCORE = "score"  # log-probability under a model: perplexity
    RERANK = "rerank"  # reorder the candidates of a query
    GENERATE = "generate"  # continue a prompt

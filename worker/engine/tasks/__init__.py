"""The three tasks of a job, with a model that is open: translation, scoring, reranking. Texts in, outcomes out."""

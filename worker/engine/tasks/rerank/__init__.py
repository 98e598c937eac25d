"""Candidates in the order of a model's scores: by a score of the text, by a yes or a no, by a cross-encoder."""

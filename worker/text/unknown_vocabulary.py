"""The error for a vocabulary that may be sound, but that kvjobs cannot read for certain."""

from jobs.errors import ModelError


class UnknownVocabularyError(ModelError):
    """It is not known for certain how the vocabulary cuts texts."""

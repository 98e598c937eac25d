"""The error for a vocabulary that may be sound, but that kvjobs cannot read for certain."""

from jobs.errors import ModelError


class UnknownVocabularyError(ModelError):
    """How the vocabulary cuts texts is not known here for certain."""

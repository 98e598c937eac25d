"""Reads documents: one, a page of a job's, a selection for an export, the matching documents of two jobs."""

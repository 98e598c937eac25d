"""Conditions on the documents of a job (`--where`): parsed, checked, and compiled to SQL for each database."""

"""Connecting to SQLite and PostgreSQL, and what each of them has to be told."""

"""Connections to SQLite and PostgreSQL: how each is configured, and what its errors mean."""

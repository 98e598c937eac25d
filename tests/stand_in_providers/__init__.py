"""Providers that tests add to those of worker.providers.available."""

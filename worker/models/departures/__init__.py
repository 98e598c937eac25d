"""Departures: where an exported graph computes something else than its configuration asks for."""

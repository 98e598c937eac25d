"""Glossaries: terms of one language with what they have to be in another."""

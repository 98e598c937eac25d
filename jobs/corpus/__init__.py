"""Corpora: the documents in files of any format, and their lines written again."""

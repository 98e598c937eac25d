"""Corpora and results that lie on other machines: buckets, datasets on the Hugging Face hub, files on the web."""

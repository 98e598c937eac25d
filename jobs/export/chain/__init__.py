"""The export of a chain: the results of all its stages side by side, a record for each document."""

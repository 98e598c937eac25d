"""A file for each page: the parameters of its address, what it reads, and the values for its template."""

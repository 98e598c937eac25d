"""The database: its schema, the leases and results in it, and the reports that read it. Every SQL statement of kvjobs
is in this package."""

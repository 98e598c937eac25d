"""What the database remembers: tables, leases, results. Every SQL statement of kvjobs is in this package."""

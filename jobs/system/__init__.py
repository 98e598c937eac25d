"""What kvjobs asks of the operating system: processes and their limits, private files, Ctrl-Z, installed packages."""

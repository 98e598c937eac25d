"""What people and programs do with jobs: the same functions for the command line, the dashboard, Python and HTTP."""

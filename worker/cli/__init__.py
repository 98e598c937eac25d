"""The worker's side of the command line. `jobs.cli.main` reaches each command by name, when it is called."""

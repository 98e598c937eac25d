"""The commands `kvjobs bench ...`."""

"""What somebody may do with a job, and why it waits: commands and sentences, for the command line and for pages."""

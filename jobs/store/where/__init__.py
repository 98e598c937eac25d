"""One condition of a person's over the documents of a job: read, checked, and made SQL for each database."""

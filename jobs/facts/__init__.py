"""What page and terminal both say of a job: facts and words, which each draws in its own way."""

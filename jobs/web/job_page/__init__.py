"""What the page of a job says: each part from its figures, with a sentence. No SQL, no HTML."""

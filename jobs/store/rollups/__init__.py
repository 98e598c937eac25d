"""The rollups of a job: what a recorded batch adds to them, and what its documents' ends do."""

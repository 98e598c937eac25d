"""What made parts of kvjobs and is not part of it: the wheel leaves it out."""

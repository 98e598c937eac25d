"""What makes or examines kvjobs and is not part of it: the wheel leaves it out."""

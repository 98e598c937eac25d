"""The engines that may answer a job, behind one protocol, and the order in which they are asked."""

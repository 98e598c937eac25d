"""What people do to a job: pause, resume, cancel, retry it, change its priority; each action is logged."""

"""The command line: a file a command group. Each command parses, calls one function, and prints.

Standard output is data; messages and progress go to standard error. A command returns its exit code, or nothing for 0;
errors are raised, and `main` alone turns them into a sentence and a code.
"""

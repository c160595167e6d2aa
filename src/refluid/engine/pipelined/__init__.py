"""A pipeline of processes, each of which runs one stage of a program."""

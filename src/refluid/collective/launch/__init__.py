"""The launcher: a job's processes on this host, their environment and their logs."""

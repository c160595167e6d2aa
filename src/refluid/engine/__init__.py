"""The engine room: makes programs ready to run, keeps what it made, and runs it."""

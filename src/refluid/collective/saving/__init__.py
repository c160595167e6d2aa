"""Checkpoints that all trainers of a job write together and resume from."""

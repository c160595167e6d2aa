"""Runs of public Fluid scripts, unmodified, on data made here (scripts/run_zoo.py)."""

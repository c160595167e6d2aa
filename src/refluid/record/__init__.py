"""Recordings of scripts: `fluid_recorder.py`, one file that runs beside real Fluid and here."""

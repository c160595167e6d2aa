"""Recordings of real Fluid: replayed, and judged by what rounding does to a run."""

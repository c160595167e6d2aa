"""Rewritings of programs: pure functions that give a new program and leave the old as it is."""

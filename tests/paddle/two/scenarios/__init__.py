"""Small programs, the same for Paddle and for refluid: each is given `paddle`, and gives arrays.

`scripts/paddle2_recordings.py` runs them in Paddle's environment, `test_scenarios.py` here. A
module has `SCENARIOS`: name -> function of `paddle`, which returns name -> array; and `NEEDS`:
name -> a module without which it can't be run as Paddle runs it.
"""

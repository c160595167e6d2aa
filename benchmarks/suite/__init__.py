"""The benchmark suite: whole training steps of refluid and of its peers, in turns in one run.

Every rival trains in a process of its own (`worker`), so that memory and first steps are its own
too. All start from refluid's initial weights and must give its first losses.
"""

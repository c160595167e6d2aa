"""`refluid doctor`: what of a machine slows training down, measured, with what to do about it."""

"""`fluid.contrib.slim`: model compression. Quantisation is there; the rest is in a stub table."""

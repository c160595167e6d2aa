"""`fluid.incubate`: what Fluid had not settled yet."""

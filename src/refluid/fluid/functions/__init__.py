"""What `fluid.layers` offers, in the families of `refluid.ops`."""

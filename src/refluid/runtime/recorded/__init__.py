"""The recorded tier: a plan's operators replaced by the kernels they call for given shapes."""

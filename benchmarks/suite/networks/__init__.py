"""The workloads' networks: for Fluid (and paddle, which takes the same), PyTorch and JAX."""

"""The batched tier: the recorded steps of all replicas on the CPU as one step of one thread."""

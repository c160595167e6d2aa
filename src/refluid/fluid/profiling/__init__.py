"""What `fluid.profiler` writes and prints."""

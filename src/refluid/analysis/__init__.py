"""What can be told of a program without running it: lifetimes, sizes, and what is needed."""

"""What binds a training script on this machine, and which settings make it faster: docs/tune.md."""

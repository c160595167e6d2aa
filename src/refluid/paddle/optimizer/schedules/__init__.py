"""What `paddle.optimizer.lr` is made of."""

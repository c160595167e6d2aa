"""What `paddle.distributed.fleet` is made of."""

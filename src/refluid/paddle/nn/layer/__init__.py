"""`paddle.nn.layer`: what the layers of `paddle.nn` are made of."""

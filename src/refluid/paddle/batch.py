"""`paddle.batch`: groups a reader's samples into minibatches."""

from refluid.feed.decorators import batch

__all__ = ["batch"]

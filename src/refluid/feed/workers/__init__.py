"""Worker processes: they make data, and write them into memory that this process reads in place."""

from refluid.feed.workers.seeds import Seeds
from refluid.feed.workers.streams import Stream
from refluid.feed.workers.tasks import Tasks

__all__ = ["Seeds", "Stream", "Tasks"]

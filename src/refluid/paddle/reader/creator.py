"""Readers of arrays and of text files, which Fluid documented until 1.5."""

from refluid.feed.former_readers import np_array, text_file

__all__ = ["np_array", "text_file"]

"""Datasets of text files: rows read by threads, parsed, shuffled and put into batches."""

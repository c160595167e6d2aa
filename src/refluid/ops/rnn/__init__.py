"""Operators: recurrent units, decoding and beam search."""

"""Layers: recurrent units, decoding and beam search."""

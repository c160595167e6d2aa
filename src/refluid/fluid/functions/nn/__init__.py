"""Layers: convolutions, pools, embeddings and what else layers of networks are."""

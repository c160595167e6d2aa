"""Tags of sequences: their likelihood, the best ones, the chunks that they form."""

"""How long, how much and how fast at most: what benchmarks and profiles measure with."""

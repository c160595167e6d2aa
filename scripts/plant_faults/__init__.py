"""Plants faults in recorded models, and says which of them `refluid verify` finds."""

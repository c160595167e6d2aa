"""`refluid convert`: a Fluid model as PyTorch source, and as files of other formats."""

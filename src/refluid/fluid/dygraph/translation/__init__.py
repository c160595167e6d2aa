"""What `declarative` is made of: how translated functions build programs, and how these run."""

"""Products of few rows by large matrices, which are as fast as the matrix comes from memory."""

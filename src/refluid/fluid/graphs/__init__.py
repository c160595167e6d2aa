"""A block as a graph of operators and versions of variables, which passes of users rewrite."""

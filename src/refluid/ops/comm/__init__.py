"""Operators: exchange between replicas."""

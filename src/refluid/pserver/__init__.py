"""Parameter servers: tables larger than one machine, and trainers that push and pull their rows.

Trainers call servers by gRPC with messages of their own binary form (`messages.py`).
"""

"""Parameter servers: tables larger than one machine, and trainers that push and pull their rows.

Trainers call servers over sockets, by messages of their own form (`messages.py`, `wire.py`).
"""

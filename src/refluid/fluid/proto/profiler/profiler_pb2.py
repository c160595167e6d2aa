"""The messages of profile files under Fluid's name, as tools/timeline.py imports them."""

from __future__ import annotations

from refluid.core.profiler_pb2 import DESCRIPTOR, Event, MemCopy, MemEvent, Profile

__all__ = ["DESCRIPTOR", "Event", "MemCopy", "MemEvent", "Profile"]

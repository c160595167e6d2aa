"""Communication between replicas: what operators and plans know of it."""

from refluid.comm.local import LocalGroup
from refluid.comm.member import ALONE, Member

__all__ = ["ALONE", "LocalGroup", "Member"]

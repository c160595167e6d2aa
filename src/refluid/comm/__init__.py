"""Communication between replicas and between processes."""

from refluid.comm.communicator import ALONE, Communicator, Work
from refluid.comm.local import LocalGroup

__all__ = ["ALONE", "Communicator", "LocalGroup", "Work"]

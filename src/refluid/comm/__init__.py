"""Communication between replicas and between processes."""

from refluid.comm.alone import ALONE
from refluid.comm.communicator import Communicator, Work
from refluid.comm.local import LocalGroup

__all__ = ["ALONE", "Communicator", "LocalGroup", "Work"]

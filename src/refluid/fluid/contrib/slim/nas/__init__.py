"""LightNAS: a search for small networks, by one controller for all processes that try them."""

from refluid.fluid.contrib.slim.nas.controller_server import ControllerServer
from refluid.fluid.contrib.slim.nas.light_nas_strategy import LightNASStrategy
from refluid.fluid.contrib.slim.nas.search_agent import SearchAgent
from refluid.fluid.contrib.slim.nas.search_space import SearchSpace

__all__ = ["ControllerServer", "LightNASStrategy", "SearchAgent", "SearchSpace"]

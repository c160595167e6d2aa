# ruff: noqa: F403
"""`fluid.contrib.decoder`: sequence decoders made of a cell that is described once."""

from refluid.fluid.contrib.decoder import beam_search_decoder
from refluid.fluid.contrib.decoder.beam_search_decoder import *

__all__ = [*beam_search_decoder.__all__]

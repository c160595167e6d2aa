"""Controllers: they propose what to try next."""

from refluid.fluid.contrib.slim.searcher.controller import EvolutionaryController, SAController

__all__ = ["EvolutionaryController", "SAController"]

"""Which public scripts are run, with which arguments, on what data."""

from __future__ import annotations

from zoo import dialogues, dygraph, gans, language, others, recommendation, scenes, speech, vision
from zoo.recipe import ALL, Recipe

__all__ = ["ALL", "RECIPES", "Recipe"]

RECIPES = [
    *recommendation.RECIPES,
    *language.RECIPES,
    *dialogues.RECIPES,
    *vision.RECIPES,
    *scenes.RECIPES,
    *gans.RECIPES,
    *speech.RECIPES,
    *dygraph.RECIPES,
    *others.RECIPES,
]

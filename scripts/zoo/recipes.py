"""Which public scripts are run, with which arguments, on what data."""

from __future__ import annotations

from zoo import language, recommendation, speech, vision
from zoo.recipe import ALL, Recipe

__all__ = ["ALL", "RECIPES", "Recipe"]

RECIPES = [
    *recommendation.RECIPES,
    *language.RECIPES,
    *vision.RECIPES,
    *speech.RECIPES,
]

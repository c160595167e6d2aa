"""What a script's error says when a package is missing that Fluid 1.8 brought along."""

from __future__ import annotations

# Import names and packages: those of the extra `compat`, and those that it leaves out
# (docs/dependencies.md has the reasons).
COMPAT = {
    "PIL": "pillow",
    "decorator": "decorator",
    "graphviz": "graphviz",
    "matplotlib": "matplotlib",
    "nltk": "nltk",
    "prettytable": "prettytable",
    "requests": "requests",
    "scipy": "scipy",
    "six": "six",
    "yaml": "pyyaml",
}
APART = {
    "astor": "astor",
    "cv2": "opencv-python-headless",
    "funcsigs": "funcsigs",
    "gast": "gast",
    "objgraph": "objgraph",
    "rarfile": "rarfile",
}


def advise(error: ModuleNotFoundError) -> None:
    """Adds a line to the error that says what to install, where Fluid brought the package along."""
    name = (error.name or "").partition(".")[0]
    package = '"refluid[compat]"' if name in COMPAT else APART.get(name)
    if package is not None:
        error.add_note(f"Fluid brought {name} along; here it comes by: pip install {package}")

"""`paddle.utils.plot`: curves that are drawn anew while one trains."""

from __future__ import annotations

from refluid.core.flags import environment_str


class PlotData:
    """A curve: steps, and a value for each."""

    def __init__(self) -> None:
        self.step: list[float] = []
        self.value: list[float] = []

    def append(self, step: float, value: float) -> None:
        """Adds a point."""
        self.step.append(step)
        self.value.append(value)

    def reset(self) -> None:
        """Forgets all points."""
        self.step.clear()
        self.value.clear()


class Ploter:
    """Curves by title: `Ploter("train", "test")`, `append("train", step, loss)`, `plot(path)`.

    matplotlib draws them. Nothing is drawn where the environment says `DISABLE_PLOT=True`.
    """

    def __init__(self, *args: str) -> None:
        self.__args__ = args
        self.__plot_data__ = {title: PlotData() for title in args}
        self.__disable_plot__ = environment_str("DISABLE_PLOT")

    def __plot_is_disabled__(self) -> bool:
        return self.__disable_plot__ == "True"

    def append(self, title: str, step: float, value: float) -> None:
        """Adds a point to the curve `title`; KeyError where there is none of that title."""
        if title not in self.__plot_data__:
            raise KeyError(f"no curve {title!r}: there are {', '.join(self.__args__)}")
        self.__plot_data__[title].append(step, value)

    def plot(self, path: str | None = None) -> None:
        """Draws all curves that have points: to a file, or without `path` in a notebook."""
        if self.__plot_is_disabled__():
            return
        from matplotlib import pyplot

        figure = pyplot.gcf()
        drawn = [title for title in self.__args__ if self.__plot_data__[title].step]
        for title in drawn:
            data = self.__plot_data__[title]
            pyplot.plot(data.step, data.value)
        pyplot.legend(drawn, loc="upper left")
        if path is None:
            _display(figure)
        else:
            pyplot.savefig(path)
        pyplot.gcf().clear()

    def reset(self) -> None:
        """Forgets the points of all curves."""
        for data in self.__plot_data__.values():
            data.reset()


def _display(figure: object) -> None:
    """Takes the place of the notebook's last picture; in a plain process nothing shows."""
    try:
        from IPython import display
    except ImportError:
        return
    display.clear_output(wait=True)
    display.display(figure)

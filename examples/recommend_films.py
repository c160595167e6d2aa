"""Recommend films: the guide's two-sided recommender, on 100,000 ratings of MovieLens.

    python scripts/fetch_data.py ratings
    refluid run examples/recommend_films.py

A person (number, gender, age, job) and a film (number, categories, words of its title) become a
vector each; how alike both are, in degrees of 1 to 5, is the rating. `films.png` shows the error
beside that of simpler guesses, and a map of films by what the network found out about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from workshop import (
    BLUE,
    GOLD,
    GREEN,
    QUIET,
    RED,
    VIOLET,
    Stopwatch,
    chart,
    data_file,
    fluid,
    save,
    tidy,
)
from workshop import options as read_options

layers, SIZE = fluid.layers, 32
# A film of several categories has the colour of the first of these.
COLOURS = {"Children's": GREEN, "Horror": VIOLET, "Action": RED, "Comedy": GOLD, "Drama": BLUE}


@dataclass
class Ratings:
    """People, films and ratings as columns of numbers; names of films and categories."""

    people: np.ndarray
    films: np.ndarray
    categories: list[list[int]]
    words: list[list[int]]
    titles: list[str]
    category_names: list[str]
    word_count: int
    pairs: np.ndarray
    scores: np.ndarray


def _rows(name: str) -> list[list[str]]:
    lines = data_file("ratings", f"ml-100k.{name}").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


def _numbers(values: list[str]) -> dict[str, int]:
    return {value: number for number, value in enumerate(sorted(set(values)))}


def load() -> Ratings:
    """All of it; person and film 0 are nobody."""
    users, items, ratings = _rows("user"), _rows("item"), _rows("inter")
    jobs = _numbers([row[3] for row in users])
    people = np.zeros((len(users) + 1, 4), np.int64)
    for number, age, gender, job, _ in users:
        people[int(number)] = int(number), gender == "F", min(int(age) // 10, 6), jobs[job]
    kinds = _numbers([kind for row in items for kind in row[3].split()])
    words = _numbers([word for row in items for word in row[1].lower().split()])
    titles, of_kind, of_word = [""], [[0]], [[0]]
    for _, title, year, classes in items:
        titles.append(f"{title} ({year})")
        of_kind.append([kinds[kind] for kind in classes.split()] or [0])
        of_word.append([words[word] for word in title.lower().split()] or [0])
    pairs = np.array([[int(row[0]), int(row[1])] for row in ratings], np.int64)
    scores = np.array([float(row[2]) for row in ratings], np.float32)
    films = np.arange(len(titles))
    return Ratings(people, films, of_kind, of_word, titles, list(kinds), len(words), pairs, scores)


def _table(name: str, size: int, width: int, lod_level: int = 0) -> tuple[Any, Any]:
    numbers = fluid.data(name, [None, 1], "int64", lod_level=lod_level)
    return numbers, layers.embedding(numbers, [size, width], is_sparse=True)


def build(data: Ratings) -> tuple[Any, Any, Any]:
    """The guess, its loss, and the vector of the film."""
    sizes = {"person": len(data.people), "gender": 2, "age": 7, "job": 21}
    parts = [layers.fc(_table(name, size, SIZE)[1], SIZE) for name, size in sizes.items()]
    person = layers.fc(layers.concat(parts, axis=1), 100, act="tanh")
    film = layers.fc(_table("film", len(data.films), SIZE)[1], SIZE)
    kinds = layers.sequence_pool(_table("kinds", len(data.category_names), SIZE, 1)[1], "sum")
    _, title = _table("title", data.word_count, SIZE, 1)
    title = fluid.nets.sequence_conv_pool(title, SIZE, 3, act="tanh", pool_type="sum")
    vector = layers.fc(layers.concat([film, kinds, title], axis=1), 100, act="tanh")
    guess = layers.scale(layers.cos_sim(person, vector), scale=2.0, bias=3.0)
    score = fluid.data("score", [None, 1], "float32")
    return guess, layers.mean(layers.square_error_cost(guess, score)), vector


def _ragged(lists: list[list[int]]) -> Any:
    flat = np.concatenate([np.asarray(one, np.int64) for one in lists])[:, None]
    return fluid.create_lod_tensor(flat, [[len(one) for one in lists]], fluid.CPUPlace())


def feed(data: Ratings, chosen: np.ndarray) -> dict[str, Any]:
    """The variables for some of the ratings."""
    return variables(data, *data.pairs[chosen].T, data.scores[chosen])


def variables(data: Ratings, people: Any, films: Any, scores: np.ndarray) -> dict[str, Any]:
    """The variables for as many people, films and scores."""
    columns = zip(("person", "gender", "age", "job"), data.people[people].T, strict=True)
    return {
        **{name: column[:, None].copy() for name, column in columns},
        "score": scores[:, None],
        "film": films[:, None],
        "kinds": _ragged([data.categories[film] for film in films]),
        "title": _ragged([data.words[film] for film in films]),
    }


def draw(path: Any, data: Ratings, errors: list[float], simple: dict[str, float], map_: Any) -> Any:
    """The error per epoch beside simpler guesses; films, the most rated ones, on a map."""
    figure, ((left, right),) = chart(2, 13, 6.5, width_ratios=(2, 5))
    left.plot(range(1, len(errors) + 1), errors, color=BLUE, marker="o", markersize=4)
    left.annotate(
        "network",
        (len(errors), errors[-1]),
        (0, -14),
        textcoords="offset points",
        ha="right",
        color=BLUE,
    )
    for name, value in simple.items():
        left.axhline(value, color=QUIET, linewidth=1, linestyle="--")
        left.text(1, value, name, color=QUIET, va="bottom", fontsize=9)
    left.set(xlabel="epoch", ylabel="error on unseen ratings (RMSE, stars)", title="What it learns")
    left.set_xticks(range(1, len(errors) + 1))
    tidy(left)
    counts = np.bincount(data.pairs[:, 1], minlength=len(data.films))
    _draw_films(right, data, np.argsort(-counts)[:170], map_)
    return save(figure, path)


def _draw_films(axis: Any, data: Ratings, films: np.ndarray, map_: np.ndarray) -> None:
    """Films by the order of their places in both directions; a name where there is room for it."""
    x, y = map_[films].argsort(axis=0).argsort(axis=0).T / len(films)
    taken = np.zeros((0, 2))
    for film, left, low in zip(films, x, y, strict=True):
        names = [data.category_names[kind] for kind in data.categories[film]]
        colour = next((COLOURS[name] for name in COLOURS if name in names), QUIET)
        axis.plot(left, low, ".", color=colour, markersize=4)
        if not (np.abs(taken - (left, low)) < (0.12, 0.018)).all(axis=1).any():
            taken = np.vstack([taken, (left, low)])
            name = data.titles[film].rpartition(" (")[0].partition(", The")[0].partition(" (")[0]
            axis.annotate(
                name[:20],
                (left, low),
                (3, -2),
                fontsize=7,
                color=colour,
                textcoords="offset points",
            )
    for name, colour in COLOURS.items():
        axis.plot([], [], "o", color=colour, label=name)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, -0.07), fontsize=9, frameon=False, ncols=5)
    axis.set(
        title="The most rated films, near those that the network takes for alike",
        xticks=[],
        yticks=[],
        xlim=(-0.02, 1.14),
        ylim=(-0.03, 1.03),
    )
    axis.spines[:].set_color("#d0d7de")


def main() -> None:
    options = read_options(__doc__.splitlines()[0], epochs=4, batch=256)
    watch, data = Stopwatch(), load()
    order = np.random.RandomState(0).permutation(len(data.scores))
    test, train = np.sort(order[:10_000]), order[10_000:]
    fluid.default_main_program().random_seed = fluid.default_startup_program().random_seed = 1
    guess, loss, vector = build(data)
    asked = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(0.002).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    errors: list[float] = []
    for epoch in range(options.epochs):
        np.random.RandomState(epoch).shuffle(train)
        for start in range(0, len(train) - options.batch + 1, options.batch):
            exe.run(feed=feed(data, train[start : start + options.batch]), fetch_list=[loss])
        (guessed,) = exe.run(asked, feed(data, test), [guess])
        errors.append(float(np.sqrt(np.mean((guessed[:, 0] - data.scores[test]) ** 2))))
        watch.say(f"epoch {epoch + 1}: error {errors[-1]:.3f} stars")
    somebody, nothing = np.ones_like(data.films), np.zeros(len(data.films), np.float32)
    (vectors,) = exe.run(asked, variables(data, somebody, data.films, nothing), [vector])
    centred = vectors - vectors.mean(axis=0)
    map_ = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    path = draw(options.out / "films.png", data, errors, simple_guesses(data, train, test), map_)
    watch.say(f"written {path}")


def simple_guesses(data: Ratings, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Errors of the mean of all ratings, and of each film's own mean."""
    mean = data.scores[train].mean()
    films = data.pairs[:, 1]
    sums = np.bincount(films[train], data.scores[train] - mean, len(data.films))
    own = mean + sums / (np.bincount(films[train], minlength=len(data.films)) + 5)
    found = {"the mean of all": mean, "each film's mean": own[films[test]]}
    return {
        name: float(np.sqrt(np.mean((data.scores[test] - one) ** 2))) for name, one in found.items()
    }


if __name__ == "__main__":
    main()

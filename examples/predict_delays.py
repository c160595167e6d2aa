"""Predict which flights are late: a click model's way, with sparse slots and train_from_dataset.

    python scripts/fetch_data.py flights
    refluid run examples/predict_delays.py

A flight is its airline, airports, hour, date, plane and number; those for tests were drawn at
random, so their days are known from other flights. The flights are written as MultiSlot text, which
a Dataset reads while the network trains. `delays.png` shows how well late flights are told from
others as it learns (the area under the ROC curve), and by hour and airline how many are late and
how many the network expects.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from flights_data import read_table
from workshop import BLUE, PALE, QUIET, RED, Stopwatch, chart, data_file, fluid, save, tidy
from workshop import options as read_options

layers = fluid.layers
SLOTS = ("carrier", "origin", "dest", "hour", "month", "weekday", "date", "tailnum", "flight")
WIDTH, LATE, TEST_BATCH = 10, 15, 5000
AIRLINES = {
    "UA": "United",
    "B6": "JetBlue",
    "EV": "ExpressJet",
    "DL": "Delta",
    "AA": "American",
    "MQ": "Envoy",
    "US": "US Airways",
    "9E": "Endeavor",
    "WN": "Southwest",
    "VX": "Virgin",
    "FL": "AirTran",
    "AS": "Alaska",
    "F9": "Frontier",
    "HA": "Hawaiian",
}


def load() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The table, a number per slot and flight, and whether it came more than 15 minutes late."""
    table = read_table(data_file("flights", "flights.pkl.compress"))
    there = ~np.isnan(table["arr_delay"])
    table = {name: column[there] for name, column in table.items()}
    dates = np.array([str(text)[:10] for text in table["time_hour"]], "datetime64[D]")
    table |= {"date": dates, "weekday": dates.astype(int) % 7}
    slots = [np.unique(table[name].astype(str), return_inverse=True)[1] for name in SLOTS]
    return table, np.stack(slots, axis=1), (table["arr_delay"] > LATE).astype(np.int64)


def write_parts(folder: Path, slots: np.ndarray, late: np.ndarray, parts: int) -> list[str]:
    """MultiSlot text: the count of values of a slot, then the values; the label last."""
    rows = np.concatenate([slots, late[:, None]], axis=1)
    names = []
    for number, some in enumerate(np.array_split(rows, parts)):
        names.append(str(folder / f"part-{number:02d}"))
        np.savetxt(names[-1], some, fmt="1 %d", delimiter=" ")
    return names


def build(sizes: np.ndarray) -> tuple[list[Any], Any, Any]:
    """The variables of a flight, the probability that it is late, and the loss."""
    flight = [layers.data(name, [1], dtype="int64", lod_level=1) for name in SLOTS]
    label = layers.data("late", [1], dtype="int64")
    deep = [
        layers.sequence_pool(layers.embedding(slot, [size, WIDTH], is_sparse=True), "sum")
        for slot, size in zip(flight, sizes, strict=True)
    ]
    wide = [
        layers.sequence_pool(layers.embedding(slot, [size, 2], is_sparse=True), "sum")
        for slot, size in zip(flight, sizes, strict=True)
    ]
    hidden = layers.concat(deep, axis=1)
    for size in (128, 64):
        hidden = layers.fc(hidden, size, act="relu")
    chance = layers.softmax(layers.sums([layers.fc(hidden, 2), *wide]))
    return [*flight, label], chance, layers.mean(layers.cross_entropy(chance, label))


def chances(exe: Any, program: Any, chance: Any, slots: np.ndarray) -> np.ndarray:
    """The probability of each flight to be late."""
    found = []
    for start in range(0, len(slots), TEST_BATCH):
        some = slots[start : start + TEST_BATCH]
        ones = [[1] * len(some)]
        feed = {
            name: fluid.create_lod_tensor(column[:, None].copy(), ones, fluid.CPUPlace())
            for name, column in zip(SLOTS, some.T, strict=True)
        }
        feed["late"] = np.zeros((len(some), 1), np.int64)
        found.append(exe.run(program, feed, [chance])[0][:, 1])
    return np.concatenate(found)


def area(chance: np.ndarray, late: np.ndarray) -> float:
    """How often a late flight was given a higher chance than one in time."""
    ranks = np.empty(len(chance))
    ranks[np.argsort(chance, kind="stable")] = np.arange(1, len(chance) + 1)
    positive = late.sum()
    wins = ranks[late == 1].sum() - positive * (positive + 1) / 2
    return float(wins / (positive * (len(late) - positive)))


def train(parts: list[str], data: Any, options: Any, watch: Stopwatch) -> tuple[list[float], Any]:
    """The area after each part of the flights, and the last chances of those for tests."""
    slots, late, sizes = data
    fluid.default_startup_program().random_seed = 1
    variables, chance, loss = build(sizes)
    asked = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(0.002, lazy_mode=True).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    dataset = fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_use_var(variables)
    dataset.set_batch_size(options.batch)
    dataset.set_thread(1)
    found = chances(exe, asked, chance, slots)
    areas = [area(found, late)]
    for part in parts * options.epochs:
        dataset.set_filelist([part])
        dataset.load_into_memory()
        dataset.local_shuffle()
        exe.train_from_dataset(fluid.default_main_program(), dataset)
        dataset.release_memory()
        found = chances(exe, asked, chance, slots)
        areas.append(area(found, late))
        watch.say(f"{Path(part).name}: area under the curve {areas[-1]:.3f}")
    return areas, found


def draw(path: Path, areas: list[float], parts: int, table: Any, late: Any, found: Any) -> Path:
    """How it learns; late flights by hour and by airline, as they were and as expected."""
    figure, ((left, middle, right),) = chart(3, 15, 4.6, width_ratios=(3, 3, 4))
    left.plot(np.arange(len(areas)) / parts, areas, color=BLUE, marker=".")
    left.set(
        xlabel="passes over the flights",
        ylabel="area under the ROC curve",
        title=f"Telling late flights from others: {areas[-1]:.3f}",
    )
    left.axhline(0.5, color=QUIET, linewidth=1, linestyle="--")
    left.text(len(areas) / parts, 0.503, "guessing", color=QUIET, ha="right", fontsize=9)
    hours = table["hour"].astype(int)
    shown = [hour for hour in range(5, 24) if (hours == hour).sum() > 50]
    middle.plot(shown, [late[hours == hour].mean() for hour in shown], color=RED, label="were late")
    middle.plot(
        shown,
        [found[hours == hour].mean() for hour in shown],
        color=BLUE,
        linestyle="--",
        label="expected",
    )
    middle.set(xlabel="planned hour of departure", title="Delays build up over the day")
    middle.set_xticks(range(6, 24, 3))
    codes = [code for code in AIRLINES if (table["carrier"] == code).sum() > 50]
    codes.sort(key=lambda code: late[table["carrier"] == code].mean())
    places = np.arange(len(codes))
    rates = [
        [values[table["carrier"] == code].mean() for code in codes] for values in (late, found)
    ]
    right.barh(places + 0.2, rates[0], 0.4, color=RED, label="were late")
    right.barh(places - 0.2, rates[1], 0.4, color=PALE, label="expected")
    right.set_yticks(places, [AIRLINES[code] for code in codes])
    right.set_title("Airlines")
    for axis in (middle, right):
        axis.legend(frameon=False, fontsize=9)
    middle.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    right.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for axis in (left, middle, right):
        tidy(axis)
    return save(figure, path)


def main() -> None:
    options = read_options(__doc__.splitlines()[0], epochs=2, batch=512, parts=8)
    watch = Stopwatch()
    table, slots, late = load()
    order = np.random.RandomState(0).permutation(len(late))
    test, rest = order[:30_000], order[30_000:]
    watch.say(f"{len(late):,} flights, {late.mean():.0%} of them late")
    with tempfile.TemporaryDirectory() as folder:
        parts = write_parts(Path(folder), slots[rest], late[rest], options.parts)
        data = slots[test], late[test], slots.max(axis=0) + 1
        areas, found = train(parts, data, options, watch)
    about = {name: table[name][test] for name in ("hour", "carrier")}
    path = draw(options.out / "delays.png", areas, options.parts, about, late[test], found)
    watch.say(f"written {path}")


if __name__ == "__main__":
    main()

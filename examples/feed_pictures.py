"""Feed pictures: the guide's image pipeline, and what each part of it does for the waiting time.

    python scripts/fetch_data.py photos
    refluid run examples/feed_pictures.py

Tiles of photographs are decoded, cropped anywhere, mirrored and brightened; the network says which
photograph a crop is of. The same batches are fed in three ways: read in the loop and fed as
float32; read ahead by a DataLoader's thread; and read by a worker process that hands on uint8,
which the network itself scales. `pictures.png` shows how long a step waits and computes in each,
and crops with what the network reads in them, trained with and without augmentation.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from workshop import (
    BLUE,
    GREEN,
    INK,
    PALE,
    QUIET,
    RED,
    Stopwatch,
    chart,
    data_file,
    fluid,
    save,
    tidy,
)
from workshop import options as read_options

layers = fluid.layers
TILE, CROP, BATCH = 160, 64, 32
PHOTOS = (
    "Elephants",
    "Aqua",
    "Blinds",
    "Dune",
    "Garden",
    "GreenMeadow",
    "LadyBird",
    "RainDrops",
    "Storm",
    "TwoWings",
    "Wood",
    "YellowFlower",
)
Samples = list[tuple[bytes, int]]


def tiles() -> tuple[Samples, Samples]:
    """JPEG tiles of each photograph and its number: the right third is for tests."""
    from PIL import Image

    train: Samples = []
    test: Samples = []
    for label, name in enumerate(PHOTOS):
        with Image.open(data_file("photos", f"{name}.jpg")) as photo:
            picture = photo.convert("RGB").resize((960, 640))
        for left in range(0, 960, TILE):
            for top in range(0, 640, TILE):
                file = io.BytesIO()
                picture.crop((left, top, left + TILE, top + TILE)).save(file, "JPEG", quality=92)
                (train if left < 640 else test).append((file.getvalue(), label))
    return train, test


def decoded(content: bytes) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(content)))


def augmented(picture: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Any square of 0.6 to 1 of its sides, scaled, at times mirrored, brighter or darker."""
    from PIL import Image

    side = random.randint(int(0.6 * TILE), TILE + 1)
    top, left = random.randint(0, TILE - side + 1, 2)
    part = Image.fromarray(picture[top : top + side, left : left + side]).resize((CROP, CROP))
    values = np.asarray(part, np.float32) * random.uniform(0.7, 1.3)
    values = values[:, ::-1] if random.randint(2) else values
    return values.clip(0, 255).astype(np.uint8)


def plain(picture: np.ndarray, _: Any = None) -> np.ndarray:
    """The square in the middle."""
    edge = (TILE - CROP) // 2
    return picture[edge : edge + CROP, edge : edge + CROP]


def batches(samples: Samples, steps: int, change: Any, seed: int) -> Iterator[Any]:
    """(uint8 [BATCH, 3, CROP, CROP], labels [BATCH, 1]), of tiles in any order."""
    random = np.random.RandomState(seed)
    for _ in range(steps):
        some = [samples[at] for at in random.randint(0, len(samples), BATCH)]
        pictures = np.stack([change(decoded(content), random) for content, _ in some])
        labels = np.array([[label] for _, label in some], np.int64)
        yield np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)), labels


@dataclass
class Network:
    """A program that takes pictures of one element type, and what it is asked for."""

    main: Any
    startup: Any
    test: Any
    chance: Any
    loss: Any
    feeds: list[Any]


def build(element: str) -> Network:
    """Three convolutions; uint8 is scaled by the network, float32 comes scaled."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        picture = fluid.data("picture", [None, 3, CROP, CROP], element)
        label = fluid.data("label", [None, 1], "int64")
        hidden = picture
        if element == "uint8":
            hidden = layers.scale(layers.cast(picture, "float32"), 1 / 127.5, -1.0)
        for filters in (16, 32, 64):
            hidden = layers.conv2d(hidden, filters, 3, padding=1, bias_attr=False)
            hidden = layers.pool2d(layers.batch_norm(hidden, act="relu"), 2, "max", 2)
        hidden = layers.pool2d(hidden, pool_type="avg", global_pooling=True)
        chance = layers.fc(hidden, len(PHOTOS), act="softmax")
        loss = layers.mean(layers.cross_entropy(chance, label))
        test = main.clone(for_test=True)
        fluid.optimizer.Adam(0.003).minimize(loss)
    return Network(main, startup, test, chance, loss, [picture, label])


def in_the_loop(_: Network, source: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Feeds made in the training loop itself, as float32."""
    for pictures, labels in source():
        yield {"picture": pictures.astype(np.float32) / 127.5 - 1, "label": labels}


def read_ahead(net: Network, source: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """The same by a DataLoader: a thread makes the next feeds while a step runs."""
    loader = fluid.io.DataLoader.from_generator(net.feeds, capacity=4)
    scaled = lambda: ((one.astype(np.float32) / 127.5 - 1, labels) for one, labels in source())  # noqa: E731
    loader.set_batch_generator(scaled, places=fluid.cpu_places(1))
    yield from (feed[0] if isinstance(feed, list) else feed for feed in loader())


def by_a_worker(net: Network, source: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """A worker process reads and hands on a quarter of the bytes: uint8."""
    loader = fluid.io.DataLoader.from_generator(net.feeds, capacity=4, use_multiprocess=True)
    loader.set_batch_generator(source, places=fluid.cpu_places(1))
    yield from (feed[0] if isinstance(feed, list) else feed for feed in loader())


WAYS = (
    ("in the loop,\nfloat32", in_the_loop, "float32"),
    ("DataLoader's thread,\nfloat32", read_ahead, "float32"),
    ("worker process,\nuint8", by_a_worker, "uint8"),
)
_WARM = 8


def measure(exe: Any, way: Any, element: str, source: Any) -> tuple[float, float, Network]:
    """Milliseconds that a step waits for its feed, and computes (medians); the trained network."""
    net = build(element)
    exe.run(net.startup)
    waits, steps = [], []
    feeds = way(net, source)
    while True:
        begin = time.perf_counter()
        feed = next(feeds, None)
        if feed is None:
            break
        ready = time.perf_counter()
        exe.run(net.main, feed, [net.loss])
        waits.append(ready - begin)
        steps.append(time.perf_counter() - ready)
    median = [float(np.median(times[_WARM:])) * 1000 for times in (waits, steps)]
    return median[0], median[1], net


def read(exe: Any, net: Network, pictures: np.ndarray) -> np.ndarray:
    """What the network takes each picture for."""
    feed = {
        "picture": np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)),
        "label": np.zeros((len(pictures), 1), np.int64),
    }
    return np.asarray(exe.run(net.test, feed, [net.chance])[0]).argmax(axis=1)


def draw(path: Any, times: Any, rights: dict[str, float], crops: Any) -> Any:
    """Waiting and computing in each way; how many it reads right; crops with its readings."""
    figure, ((left, middle, right),) = chart(3, 15, 5, width_ratios=(4, 2, 5))
    names, waits, steps = zip(*times, strict=True)
    places = np.arange(len(names))
    left.bar(places, waits, 0.55, color=RED, label="waits for its feed")
    left.bar(places, steps, 0.55, bottom=waits, color=PALE, label="computes")
    for place, wait, step in zip(places, waits, steps, strict=True):
        left.text(place, wait + step, f"waits {wait:.1f} ms", ha="center", va="bottom", color=INK)
    left.set_xticks(places, names)
    left.set(ylabel="ms a step of 32 pictures (median)", title="Where a step's time goes")
    left.margins(y=0.12)
    left.legend(frameon=False)
    middle.bar(range(len(rights)), rights.values(), 0.55, color=[QUIET, BLUE])
    for place, value in enumerate(rights.values()):
        middle.text(place, value, f"{value:.0%}", ha="center", va="bottom")
    middle.set_xticks(range(len(rights)), [f"{name}\naugmentation" for name in rights])
    middle.set(ylim=(0, 1.05), title="Crops of unseen tiles read right")
    middle.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for axis in (left, middle):
        tidy(axis)
    pictures, labels, found = crops
    sheet = np.full((4, CROP + 16, 8, CROP + 6, 3), 255, np.uint8)
    for place, (picture, label, said) in enumerate(zip(pictures, labels, found, strict=True)):
        row, column = divmod(place, 8)
        sheet[row, 14 : 14 + CROP, column, 3 : 3 + CROP] = picture
        right.text(
            column * (CROP + 6) + CROP / 2,
            row * (CROP + 16) + 10,
            PHOTOS[said][:12],
            fontsize=7,
            ha="center",
            color=GREEN if said == label else RED,
        )
    right.imshow(sheet.reshape(4 * (CROP + 16), 8 * (CROP + 6), 3))
    right.set_axis_off()
    right.set_title("Crops of unseen tiles, and what it takes them for")
    return save(figure, path)


def main() -> None:
    options = read_options(__doc__.splitlines()[0], steps=80)
    watch = Stopwatch()
    train, test = tiles()
    watch.say(f"{len(train)} tiles to train with, {len(test)} for tests")
    exe = fluid.Executor(fluid.CPUPlace())
    times, net = [], None
    for name, way, element in WAYS:
        source = lambda: batches(train, options.steps, augmented, seed=1)  # noqa: E731
        wait, step, net = measure(exe, way, element, source)
        times.append((name, wait, step))
        watch.say(f"{name!r}: waits {wait:.1f} ms, computes {step:.1f} ms")
    random = np.random.RandomState(3)
    chosen = random.permutation(len(test))
    pictures = np.stack([augmented(decoded(test[at][0]), random) for at in chosen])
    labels = np.array([test[at][1] for at in chosen])
    found = read(exe, net, pictures)
    rights = {"with": float((found == labels).mean())}
    *_, bare = measure(exe, by_a_worker, "uint8", lambda: batches(train, options.steps, plain, 1))
    rights = {"without": float((read(exe, bare, pictures) == labels).mean())} | rights
    watch.say(", ".join(f"{name} augmentation {value:.0%} right" for name, value in rights.items()))
    shown = pictures[:32], labels[:32], found[:32]
    watch.say(f"written {draw(options.out / 'pictures.png', times, rights, shown)}")


if __name__ == "__main__":
    main()

"""Map words: word2vec on the Brown corpus, skip-grams told from noise.

    python scripts/fetch_data.py brown
    refluid run examples/map_words.py

A word's vector has to say which words stand near it; five words at random stand for those that
don't. `words.png` shows the most frequent words on a map, coloured by their part of speech, which
training never sees, and the nearest neighbours of some.
"""

from __future__ import annotations

import collections
import tarfile
from typing import Any

import numpy as np
from workshop import BLUE, GOLD, GREEN, QUIET, RED, Stopwatch, chart, data_file, fluid, save
from workshop import options as read_options

layers = fluid.layers
WIDTH, NEAR, NOISE, RARE, SHOWN = 64, 4, 5, 8, 260
KINDS = {
    "nn": ("nouns", BLUE),
    "vb": ("verbs", RED),
    "jj": ("adjectives", GREEN),
    "rb": ("adverbs", GOLD),
}
ASKED = ("money", "he", "three", "monday", "small", "went", "church", "never", "river", "father")


def load() -> tuple[list[str], list[str], np.ndarray]:
    """Words that occur often enough, the kind that each mostly is, and the text as numbers."""
    text, tags = [], collections.defaultdict(collections.Counter)
    with tarfile.open(data_file("brown", "brown.tgz")) as archive:
        for member in sorted(archive.getmembers(), key=lambda one: one.name):
            name = member.name.rsplit("/", 1)[-1]
            if len(name) == 4 and name[0] == "c" and name[2:].isdigit():
                for token in archive.extractfile(member).read().decode("latin1").split():
                    word, _, tag = token.rpartition("/")
                    if any(letter.isalpha() for letter in word):
                        text.append(word.lower())
                        tags[word.lower()][tag[:2]] += 1
    counts = collections.Counter(text)
    words = [word for word, count in counts.most_common() if count >= RARE]
    numbers = {word: number for number, word in enumerate(words)}
    found = np.array([numbers[word] for word in text if word in numbers], np.int64)
    return words, [tags[word].most_common(1)[0][0] for word in words], found


def skip_grams(text: np.ndarray, random: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """(word, one that is near it) in any order; of frequent words only some are kept."""
    share = np.bincount(text) / len(text)
    keep = np.sqrt(5e-4 / share)[text] > random.random_sample(len(text))
    text = text[keep]
    pairs = []
    for step in range(1, NEAR + 1):  # words that are nearer are taken more often
        some = random.random_sample(len(text) - step) < (NEAR + 1 - step) / NEAR
        left, right = text[:-step][some], text[step:][some]
        pairs += [np.stack([left, right]), np.stack([right, left])]
    centre, near = np.concatenate(pairs, axis=1)
    order = random.permutation(len(centre))
    return centre[order], near[order]


def build(size: int) -> tuple[Any, Any]:
    """The loss, and the table of vectors' name."""
    centre = fluid.data("centre", [None, 1], "int64")
    others = fluid.data("others", [None, 1 + NOISE], "int64")  # the first one is near
    small = fluid.initializer.Uniform(-0.5 / WIDTH, 0.5 / WIDTH)
    vector = fluid.embedding(
        centre,
        [size, WIDTH],
        is_sparse=True,
        param_attr=fluid.ParamAttr("vectors", initializer=small),
    )
    context = fluid.embedding(
        others,
        [size, WIDTH],
        is_sparse=True,
        param_attr=fluid.ParamAttr("contexts", initializer=fluid.initializer.Constant(0.0)),
    )
    alike = layers.reduce_sum(layers.elementwise_mul(context, vector), dim=2)
    near = fluid.layers.one_hot(layers.zeros_like(layers.slice(others, [1], [0], [1])), 1 + NOISE)
    loss = layers.sigmoid_cross_entropy_with_logits(alike, near)
    return layers.mean(layers.reduce_sum(loss, dim=1)), "vectors"


def train(words: list[str], text: np.ndarray, epochs: int, batch: int, watch: Stopwatch) -> Any:
    """The vectors [words, WIDTH] after some passes over the text."""
    fluid.default_startup_program().random_seed = 1
    loss, name = build(len(words))
    fluid.optimizer.Adam(0.003, lazy_mode=True).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    odds = np.bincount(text).astype(float) ** 0.75
    limits = np.cumsum(odds) / odds.sum()
    for epoch in range(epochs):
        random = np.random.RandomState(epoch)
        centre, near = skip_grams(text, random)
        losses = []
        for start in range(0, len(centre) - batch + 1, batch):
            some = slice(start, start + batch)
            noise = np.searchsorted(limits, random.random_sample((batch, NOISE)))
            others = np.concatenate([near[some, None], noise], axis=1)
            feed = {"centre": centre[some, None], "others": others}
            losses.append(exe.run(feed=feed, fetch_list=[loss])[0].item())
        watch.say(f"epoch {epoch + 1}: {len(centre):,} pairs, loss {np.mean(losses[-100:]):.3f}")
    vectors = np.array(fluid.global_scope().find_var(name).get_tensor())
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def spread(vectors: np.ndarray, rounds: int = 400) -> np.ndarray:
    """A map [n, 2] that keeps neighbours together: t-SNE, as its authors wrote it down."""
    apart = np.square(vectors[:, None] - vectors[None]).sum(axis=2)
    near = np.stack([_shares(np.delete(row, n), n) for n, row in enumerate(apart)])
    near = np.maximum((near + near.T) / (2 * len(near)), 1e-12)
    place = np.random.RandomState(0).standard_normal((len(near), 2)) * 1e-2
    speed = np.zeros_like(place)
    for turn in range(rounds):
        steps = place[:, None] - place[None]
        closeness = 1 / (1 + np.square(steps).sum(axis=2))
        np.fill_diagonal(closeness, 0)
        pull = near * (8 if turn < 100 else 1) - closeness / closeness.sum()
        slope = 4 * ((pull * closeness)[:, :, None] * steps).sum(axis=1)
        speed = (0.5 if turn < 100 else 0.8) * speed - 60 * slope
        place = place + speed
    return place - place.mean(axis=0)


def _shares(distances: np.ndarray, at: int, neighbours: float = 12.0) -> np.ndarray:
    """How near the others are, so that about as many count; the row's own place is 0."""
    low, high = 1e-3, 1e4
    for _ in range(40):
        sharpness = np.sqrt(low * high)
        share = np.exp(-(distances - distances.min()) * sharpness)
        share /= share.sum()
        entropy = -np.sum(share * np.log(share + 1e-12))
        low, high = (sharpness, high) if entropy > np.log(neighbours) else (low, sharpness)
    return np.insert(share, at, 0.0)


def draw(path: Any, words: list[str], kinds: list[str], vectors: np.ndarray) -> Any:
    """The map on the left, neighbours on the right."""
    known = [n for n in range(len(words)) if kinds[n] in KINDS and len(words[n]) > 2][:SHOWN]
    place = spread(vectors[known])
    figure, ((left, right),) = chart(2, 14, 8, width_ratios=(5, 2))
    for (x, y), number in zip(place, known, strict=True):
        colour = KINDS[kinds[number]][1]
        left.text(x, y, words[number], fontsize=7.5, color=colour, ha="center", va="center")
    for label, colour in KINDS.values():
        left.plot([], [], "o", color=colour, label=label)
    left.set(xlim=_limits(place[:, 0]), ylim=_limits(place[:, 1]), xticks=[], yticks=[])
    left.legend(loc="upper left", fontsize=9, frameon=False, ncols=4)
    left.set_title("Frequent words, near those that occur in the same places")
    left.spines[:].set_color("#d0d7de")
    right.set_axis_off()
    right.set(xlim=(0, 1), ylim=(len(ASKED) - 0.5, -1))
    right.set_title("Nearest neighbours", loc="left")
    for row, word in enumerate(one for one in ASKED if one in words):
        alike = vectors @ vectors[words.index(word)]
        best = ", ".join(words[n] for n in np.argsort(-alike)[1:6])
        right.text(0, row - 0.2, word, fontsize=11, fontweight="bold")
        right.text(0, row + 0.2, best, fontsize=9, color=QUIET)
    return save(figure, path)


def _limits(values: np.ndarray) -> tuple[float, float]:
    room = 0.06 * np.ptp(values)
    return values.min() - room, values.max() + room


def main() -> None:
    options = read_options(__doc__.splitlines()[0], epochs=3, batch=4096)
    watch = Stopwatch()
    words, kinds, text = load()
    watch.say(f"{len(text):,} words of {len(words):,} kinds")
    vectors = train(words, text, options.epochs, options.batch, watch)
    watch.say(f"written {draw(options.out / 'words.png', words, kinds, vectors)}")


if __name__ == "__main__":
    main()

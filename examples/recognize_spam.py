"""Recognise spam: an LSTM over messages of any length (LoD), on SpamAssassin's.

    python scripts/fetch_data.py spam
    refluid run examples/recognize_spam.py

The first words of a message's subject and text are read one after the other; nothing is padded.
`spam.png` shows how sure the network is of messages it has not seen, and how its opinion of a few
changes from word to word.
"""

from __future__ import annotations

import collections
import email
import re
import tarfile
from typing import Any

import numpy as np
from workshop import BLUE, INK, QUIET, RED, Stopwatch, chart, data_file, fluid, save, tidy
from workshop import options as read_options

layers = fluid.layers
WIDTH, LONGEST, WORDS, TEST_BATCH = 64, 80, 6000, 256
_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|[$!%]|\d+")
Message = list[str]


def _text(content: bytes) -> Message:
    """The first words of subject and text; every number is one word."""
    message = email.message_from_bytes(content)
    parts = [part for part in message.walk() if part.get_content_maintype() == "text"][:1]
    body = (parts[0].get_payload(decode=True) or b"") if parts else b""
    plain = re.sub(r"<[^>]*>|&\w+;|https?://\S+|\S+@\S+", " ", body.decode("latin1"))
    subject = re.sub(r"\[[^\]]*\]", " ", str(message["subject"] or ""))  # a list's name
    words = _TOKEN.findall(f"{subject} {plain}".lower())[:LONGEST]
    return ["0" if word.isdigit() else word for word in words]


def load() -> tuple[list[Message], np.ndarray]:
    """Messages of at least five words, and 1 for spam; each kind of message once."""
    messages, spam, seen = [], [], set()
    with tarfile.open(data_file("spam", "datasets.tgz")) as archive:
        for member in archive:
            parts = member.name.split("/")
            if "spam-assassin" in parts and "data" in parts and parts[-1].endswith(".txt"):
                words = _text(archive.extractfile(member).read())
                if len(words) >= 5 and tuple(words) not in seen:
                    seen.add(tuple(words))
                    messages.append(words)
                    spam.append(parts[-2].startswith("spam"))
    return messages, np.array(spam, np.int64)


def build(size: int) -> tuple[Any, Any]:
    """The probability of spam, and the loss."""
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    label = fluid.data("label", [None, 1], "int64")
    vectors = layers.embedding(words, [size, WIDTH], is_sparse=True)
    states, _ = layers.dynamic_lstm(layers.fc(vectors, 4 * WIDTH), 4 * WIDTH, use_peepholes=False)
    pooled = [layers.sequence_pool(states, kind) for kind in ("max", "average")]
    features = layers.dropout(layers.concat(pooled, axis=1), 0.3)
    chance = layers.fc(features, 2, act="softmax")
    return chance, layers.mean(layers.cross_entropy(chance, label))


class Reader:
    """Messages as numbers, and as what the network is fed."""

    def __init__(self, messages: list[Message]) -> None:
        counts = collections.Counter(word for words in messages for word in words)
        self.numbers = {word: n for n, (word, _) in enumerate(counts.most_common(WORDS), 1)}

    def feed(self, messages: list[Message], labels: np.ndarray) -> dict[str, Any]:
        flat = [[self.numbers.get(word, 0)] for words in messages for word in words]
        lengths = [[len(words) for words in messages]]
        words = fluid.create_lod_tensor(np.array(flat, np.int64), lengths, fluid.CPUPlace())
        return {"words": words, "label": labels[:, None]}


def chances(exe: Any, asked: tuple[Any, Any], reader: Reader, messages: list[Message]) -> Any:
    """How sure the network is that each message is spam."""
    program, chance = asked
    found = []
    for start in range(0, len(messages), TEST_BATCH):
        some = messages[start : start + TEST_BATCH]
        feed = reader.feed(some, np.zeros(len(some), np.int64))
        found.append(exe.run(program, feed, [chance])[0][:, 1])
    return np.concatenate(found)


def _draw_opinions(axis: Any, told: list[tuple[Message, np.ndarray]]) -> None:
    """Words, red where the network got surer that it reads spam, blue where less sure."""
    axis.set_axis_off()
    axis.set(xlim=(0, 108), ylim=(1, 0))
    axis.set_title("Unseen messages: words that speak for spam are red, those against it blue")
    top = 0.03
    for words, opinions in told:
        odds = np.log(np.concatenate([[0.3], opinions.clip(1e-4, 1 - 1e-4)]))
        steps = np.diff(odds - np.log1p(-np.exp(odds)))
        axis.text(
            0,
            top,
            f"{opinions[-1]:.0%} spam",
            fontsize=10,
            fontweight="bold",
            color=RED if opinions[-1] > 0.5 else BLUE,
        )
        top, left = top + 0.045, 0
        for word, step in zip(words, steps, strict=True):
            if left + len(word) > 104:
                top, left = top + 0.042, 0
            colour = QUIET if abs(step) < 0.3 else RED if step > 0 else BLUE
            axis.text(
                left,
                top,
                word,
                fontsize=9,
                family="monospace",
                color=colour,
                fontweight="bold" if abs(step) > 1 else "normal",
            )
            left += len(word) + 1
        top += 0.085


def draw(path: Any, errors: list[float], found: np.ndarray, spam: np.ndarray, told: Any) -> Any:
    """How many are taken for the other kind after each pass, how sure it is, and its opinions."""
    figure, ((left, middle, right),) = chart(3, 15, 5.5, width_ratios=(2, 2, 5))
    left.plot(range(1, len(errors) + 1), errors, color=INK, marker="o")
    left.set(xlabel="passes over the messages", title="Messages read wrongly", ylim=(0, None))
    left.yaxis.set_major_formatter(lambda value, _: f"{value:.1%}")
    left.xaxis.get_major_locator().set_params(integer=True)
    for kind, colour, name in ((0, BLUE, "wanted"), (1, RED, "spam")):
        middle.hist(found[spam == kind], 20, range=(0, 1), color=colour, alpha=0.7, label=name)
    middle.set(yscale="log", xlabel="sure that it is spam", title="Messages never seen")
    middle.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    middle.legend(frameon=False)
    for axis in (left, middle):
        tidy(axis)
    _draw_opinions(right, told)
    return save(figure, path)


def main() -> None:
    options = read_options(__doc__.splitlines()[0], epochs=3, batch=64)
    watch = Stopwatch()
    messages, spam = load()
    order = np.random.RandomState(0).permutation(len(messages))
    test, train = order[:1000], order[1000:]
    watch.say(f"{len(messages):,} messages, {spam.mean():.0%} of them spam")
    reader = Reader([messages[one] for one in train])
    fluid.default_startup_program().random_seed = fluid.default_main_program().random_seed = 1
    chance, loss = build(WORDS + 1)
    asked = fluid.default_main_program().clone(for_test=True), chance
    fluid.optimizer.Adam(0.003).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    unseen, errors = [messages[one] for one in test], []
    for epoch in range(options.epochs):
        np.random.RandomState(epoch).shuffle(train)
        for start in range(0, len(train) - options.batch + 1, options.batch):
            some = train[start : start + options.batch]
            exe.run(feed=reader.feed([messages[one] for one in some], spam[some]))
        found = chances(exe, asked, reader, unseen)
        errors.append(float(((found > 0.5) != spam[test]).mean()))
        watch.say(f"epoch {epoch + 1}: {errors[-1]:.1%} of unseen messages read wrongly")
    told = []
    for wanted in (1, 0, 1, 0):
        fits = [n for n, one in enumerate(unseen) if spam[test][n] == wanted and len(one) > 35]
        words = unseen[fits[len(told) * 3]][:64]
        prefixes = [words[:end] for end in range(1, len(words) + 1)]
        told.append((words, chances(exe, asked, reader, prefixes)))
    watch.say(f"written {draw(options.out / 'spam.png', errors, found, spam[test], told)}")


if __name__ == "__main__":
    main()

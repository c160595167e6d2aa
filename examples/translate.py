"""Translate: French to English verses, by an encoder, attention and beam search.

    python scripts/fetch_data.py bible
    refluid run examples/translate.py

Short verses of two translations of the Bible are read in French by one recurrent network and said
in English by another, which looks at all French words for each English one. `translation.png`
shows where it looks, how it learns, and what beam search makes of verses it has not seen.
"""

from __future__ import annotations

import collections
import re
import sqlite3
from dataclasses import dataclass
from typing import Any

import numpy as np
from workshop import BLUE, INK, QUIET, Stopwatch, chart, data_file, fluid, save, tidy
from workshop import options as read_options

layers = fluid.layers
WIDTH, LONGEST, RARE, BEAM = 128, 18, 3, 4
START, END, UNKNOWN = 0, 1, 2
FRENCH, ENGLISH = "l", "4"  # Segond's and the World English Bible in the database
Verse = list[str]


@dataclass
class Language:
    """Its words by number, and numbers by word."""

    words: list[str]
    numbers: dict[str, int]
    odds: np.ndarray  # the logarithm of how frequent each word is

    @classmethod
    def of(cls, verses: list[Verse]) -> Language:
        counts = collections.Counter(word for verse in verses for word in verse)
        words = [word for word, count in counts.most_common() if count >= RARE]
        words = ["<s>", "<e>", "…", *words]
        often = [1, len(verses), sum(counts.values()) - sum(counts[word] for word in words)]
        often += [counts[word] for word in words[3:]]
        odds = np.log(np.array(often, np.float32) + 1) - np.log(sum(often))
        return cls(words, {word: number for number, word in enumerate(words)}, odds)

    def rows(self, verses: list[Verse]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers [n, LONGEST + 1] that end with END (and are filled with it), and lengths."""
        rows = np.full((len(verses), LONGEST + 1), END, np.int64)
        for row, verse in zip(rows, verses, strict=True):
            row[: len(verse)] = [self.numbers.get(word, UNKNOWN) for word in verse]
        return rows, np.array([len(verse) + 1 for verse in verses], np.int64)

    def text(self, row: Any) -> str:
        """Its sentence; a word that is too rare to be known is `…`."""
        ends = [at for at, number in enumerate(row) if number == END]
        words = [self.words[number] for number in row[: ends[0] if ends else len(row)]]
        return joined(words)


def joined(words: Verse) -> str:
    """Words as a sentence is written."""
    return re.sub(r" ([,.;:!?])|(['`]) ", r"\1\2", " ".join(words))


def load() -> tuple[list[Verse], list[Verse]]:
    """Short verses in French and in English."""
    verses: dict[Any, dict[str, Verse]] = collections.defaultdict(dict)
    database = sqlite3.connect(f"file:{data_file('bible', 'bible.db')}?mode=ro", uri=True)
    for code in (FRENCH, ENGLISH):
        asked = "select bNumber, cNumber, vNumber, vText from bible where bbName = ?"
        for *place, text in database.execute(asked, (code,)):
            words = re.findall(r"\w+['`]?|[,.;:!?]", text.lower().replace("’", "'"))
            verses[tuple(place)][code] = words
    database.close()
    both = [one for one in verses.values() if len(one) == 2]
    short = [one for one in both if max(map(len, one.values())) <= LONGEST]
    return [one[FRENCH] for one in short], [one[ENGLISH] for one in short]


def _fc(x: Any, size: int, name: str, **more: Any) -> Any:
    return layers.fc(x, size, num_flatten_dims=2, param_attr=fluid.ParamAttr(name), **more)


def _gates(x: Any, name: str) -> Any:
    """What a GRU is given: three vectors of WIDTH for each word."""
    return layers.fc(x, 3 * WIDTH, param_attr=fluid.ParamAttr(name), bias_attr=False)


def _gru(x: Any, name: str, **more: Any) -> Any:
    """The states of a GRU over sentences of any length."""
    names = {"param_attr": fluid.ParamAttr(f"{name}_w"), "bias_attr": fluid.ParamAttr(f"{name}_b")}
    return layers.dynamic_gru(_gates(x, f"{name}_gates"), WIDTH, **names, **more)


def _padded(x: Any) -> Any:
    """[batch, LONGEST + 1, ...]: the sentences one below the other, filled up with zeros."""
    zero = layers.fill_constant([1], "float32", 0.0)
    return layers.sequence_pad(x, zero, maxlen=LONGEST + 1)[0]


def encode(size: int) -> tuple[Any, Any, Any]:
    """A vector per French word, the state after the last, and what keeps attention off filling."""
    source = fluid.data("source", [None, 1], "int64", lod_level=1)
    length = fluid.data("length", [None], "int64")
    vectors = layers.embedding(source, [size, WIDTH], param_attr=fluid.ParamAttr("french"))
    forward, backward = _gru(vectors, "forward"), _gru(vectors, "backward", is_reverse=True)
    last = layers.concat(
        [layers.sequence_last_step(forward), layers.sequence_first_step(backward)], 1
    )
    state = layers.fc(
        last, WIDTH, act="tanh", param_attr=fluid.ParamAttr("bridge"), bias_attr=False
    )
    there = layers.sequence_mask(length, maxlen=LONGEST + 1, dtype="float32")
    mask = layers.unsqueeze(layers.scale(there, scale=1e9, bias=-1.0, bias_after_scale=False), [1])
    return _padded(layers.concat([forward, backward], axis=1)), state, mask


class Decoder(layers.RNNCell):
    """One step of the GRU of `build_training`, by the same parameters."""

    def call(self, inputs: Any, states: Any) -> tuple[Any, Any]:
        names = {
            "param_attr": fluid.ParamAttr("decoder_w"),
            "bias_attr": fluid.ParamAttr("decoder_b"),
        }
        state = layers.gru_unit(_gates(inputs, "decoder_gates"), states, 3 * WIDTH, **names)[0]
        return state, state


def attend(states: Any, memory: Any, mask: Any, english: Language) -> tuple[Any, Any]:
    """Scores of the English words after each state, and the shares of French words looked at."""
    keys = _fc(memory, WIDTH, "keys", bias_attr=False)
    alike = layers.elementwise_add(layers.matmul(states, keys, transpose_y=True), mask)
    shares = layers.softmax(alike)
    seen = layers.concat([states, layers.matmul(shares, memory)], axis=2)
    hidden = _fc(seen, WIDTH, "seen", act="tanh", bias_attr=False)
    often = fluid.initializer.NumpyArrayInitializer(english.odds)
    bias = fluid.ParamAttr("english_bias", initializer=often)
    return _fc(hidden, len(english.words), "english_scores", bias_attr=bias), shares


def build_training(french: Language, english: Language) -> tuple[Any, Any]:
    """The loss per word, and the attention [batch, English words, French words]."""
    memory, state, mask = encode(len(french.words))
    before = fluid.data("before", [None, 1], "int64", lod_level=1)
    after = fluid.data("after", [None, LONGEST + 1], "int64")
    count = fluid.data("count", [None], "int64")
    vectors = layers.embedding(
        before, [len(english.words), WIDTH], param_attr=fluid.ParamAttr("english")
    )
    states = _padded(_gru(vectors, "decoder", h_0=state))
    scores, shares = attend(layers.dropout(states, 0.2), memory, mask, english)
    loss = layers.softmax_with_cross_entropy(scores, layers.unsqueeze(after, [2]))
    there = layers.unsqueeze(layers.sequence_mask(count, LONGEST + 1, "float32"), [2])
    total = layers.reduce_sum(layers.elementwise_mul(loss, there))
    return layers.elementwise_div(total, layers.reduce_sum(there)), shares


def build_search(french: Language, english: Language) -> Any:
    """The most probable sentences [batch, words, BEAM], the best first."""
    memory, state, mask = encode(len(french.words))
    decoder = layers.BeamSearchDecoder(
        Decoder(),
        start_token=START,
        end_token=END,
        beam_size=BEAM,
        embedding_fn=lambda numbers: fluid.embedding(
            numbers, [len(english.words), WIDTH], param_attr=fluid.ParamAttr("english")
        ),
        output_fn=lambda states: attend(states, memory, mask, english)[0],
    )
    return layers.dynamic_decode(decoder, inits=state, max_step_num=LONGEST + 2)[0]


def _sentences(rows: np.ndarray, lengths: np.ndarray) -> Any:
    """Rows without what they are filled with."""
    flat = np.concatenate([row[:length] for row, length in zip(rows, lengths, strict=True)])
    return fluid.create_lod_tensor(flat[:, None], [lengths.tolist()], fluid.CPUPlace())


def feed(french: Any, english: Any, some: Any) -> dict[str, Any]:
    (source, length), (after, count) = french, english
    before = np.concatenate([np.full((len(some), 1), START), after[some, :-1]], axis=1)
    return {
        "source": _sentences(source[some], length[some]),
        "length": length[some],
        "before": _sentences(before, count[some]),
        "after": after[some],
        "count": count[some],
    }


def draw(path: Any, losses: list[float], attention: Any, told: Any) -> Any:
    """Where it looks for one verse, how it learns, and some translations."""
    figure, ((left, middle, right),) = chart(3, 16, 5.2, width_ratios=(4, 3, 6))
    shares, source, target = attention
    left.imshow(shares, cmap="Blues", aspect="auto", vmin=0)
    left.set_xticks(range(len(source)), source, rotation=50, ha="right", fontsize=9)
    left.set_yticks(range(len(target)), target, fontsize=9)
    left.set_title("Where it looks (French) for each English word")
    window = max(1, len(losses) // 40)
    middle.plot(np.convolve(losses, np.ones(window) / window, "valid"), color=BLUE)
    middle.set(xlabel="step", ylabel="loss per word", title="Training")
    tidy(middle)
    right.set_axis_off()
    right.set(ylim=(len(told) - 0.3, -0.6), xlim=(0, 1), title="Verses it has not seen")
    for row, (french, said, meant) in enumerate(told):
        right.text(0, row - 0.25, french[:86], fontsize=8, color=QUIET, style="italic")
        right.text(0, row + 0.03, said[:80], fontsize=9, color=INK, fontweight="bold")
        right.text(0, row + 0.31, f"in the book: {meant[:80]}", fontsize=8, color=QUIET)
    return save(figure, path)


def train(exe: Any, built: Any, data: Any, order: np.ndarray, options: Any, watch: Any) -> Any:
    program, loss = built
    losses: list[float] = []
    for epoch in range(options.epochs):
        np.random.RandomState(epoch).shuffle(order)
        for start in range(0, len(order) - options.batch + 1, options.batch):
            some = order[start : start + options.batch]
            (value,) = exe.run(program, feed(*data, some), [loss])
            losses.append(np.asarray(value).item())
        watch.say(f"epoch {epoch + 1}: loss per word {np.mean(losses[-40:]):.2f}")
    return losses


def main() -> None:
    options = read_options(__doc__.splitlines()[0], epochs=7, batch=64, shown=8)
    watch = Stopwatch()
    verses = load()
    french, english = (Language.of(some) for some in verses)
    data = french.rows(verses[0]), english.rows(verses[1])
    sizes = len(french.words), len(english.words)
    watch.say(f"{len(verses[0]):,} short verses; {sizes[0]:,} and {sizes[1]:,} words")
    order = np.random.RandomState(0).permutation(len(verses[0]))
    unseen, order = order[: options.shown], order[options.shown :]
    startup, main_program, search = (fluid.Program() for _ in range(3))
    startup.random_seed = main_program.random_seed = 1
    with fluid.program_guard(main_program, startup), fluid.unique_name.guard():
        loss, shares = build_training(french, english)
        asked = main_program.clone(for_test=True)
        fluid.optimizer.Adam(0.003, grad_clip=fluid.clip.GradientClipByGlobalNorm(5.0)).minimize(
            loss
        )
    with fluid.program_guard(search, fluid.Program()), fluid.unique_name.guard():
        found = build_search(french, english)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    losses = train(exe, (main_program, loss), data, order, options, watch)
    length = data[0][1][unseen]
    given = {"source": _sentences(data[0][0][unseen], length), "length": length}
    (beams,) = exe.run(search, given, [found])
    told = [
        (joined(verses[0][at]), english.text(beam[:, 0]), joined(verses[1][at]))
        for at, beam in zip(unseen, beams, strict=True)
    ]
    for french_text, said, _ in told:
        watch.say(f"{french_text}  ->  {said}")
    best = max(range(len(told)), key=lambda one: len(set(told[one][1].split())))
    said = beams[best, :, 0][: LONGEST + 1]
    rows = np.full((1, LONGEST + 1), END, np.int64)
    rows[0, : len(said)] = said
    size = int((rows[0] != END).sum()) + 1
    retold = rows, np.array([size])
    given = feed(tuple(part[unseen[best : best + 1]] for part in data[0]), retold, np.array([0]))
    (looked,) = exe.run(asked, given, [shares])
    source = [*verses[0][unseen[best]], "<e>"]
    target = [english.words[number] for number in rows[0, :size]]
    attention = looked[0, :size, : len(source)], source, target
    watch.say(f"written {draw(options.out / 'translation.png', losses, attention, told)}")


if __name__ == "__main__":
    main()

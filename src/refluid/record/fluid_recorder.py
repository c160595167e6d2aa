# -*- coding: utf-8 -*-
"""Records what a Fluid script computes, to be compared elsewhere (`refluid verify DIR`).

    python fluid_recorder.py --out DIR [--steps 5] train.py --its-args

Copy this one file into the environment in which the script works: Python 2.7 or 3.5 and later,
PaddlePaddle 1.5 to 1.8, NumPy, nothing else. The script is run unchanged. Its first calls of
`Executor.run` that feed or fetch something are recorded: the program, all variables before, what
was fed and what was fetched. Dropout is turned off, for its random numbers are nowhere else the
same. Then the same steps are run again from parameters that are changed at random by at most 8
units in the last place: how far results move tells what rounding alone does to them.

DIR gets main_NAME.pb, state.npz, steps.npz, digest.npz, spread.json and meta.json, the format of
refluid's docs/recordings.md. A compiled program is recorded as the plain one, on one place.
"""

from __future__ import division, print_function

import argparse
import json
import os
import runpy
import sys
import zlib

import numpy as np

NOISE = 8 * 2.0**-23
FLOOR = 1e-7
# Whose numbers come from a generator; `dropout` only where it was not turned off.
RANDOM = set(
    """bernoulli dpsgd gaussian_random gaussian_random_batch_size_like nce randint random_crop
    randperm sample_logits sampling_id shuffle_batch truncated_gaussian_random uniform_random
    uniform_random_batch_size_like""".split()
)
DTYPES = ["bool", "int16", "int32", "int64", "float16", "float32", "float64"]


class Stop(SystemExit):
    """Ends the script when enough is recorded."""


class Step(object):
    """One run: tag of the program, feeds and results as {name: (array, lengths)}."""

    def __init__(self, tag, feeds, fetches, results):
        self.tag, self.feeds, self.fetches, self.results = tag, feeds, fetches, results


class Recorder(object):
    """Stands in for `Executor.run` until so many runs are recorded.

    as_array: what makes the array that the script gets of a fetched tensor.
    """

    def __init__(self, fluid, folder, steps=5, keep_random=False, repeats=4, as_array=np.array):
        self.fluid, self.folder, self.steps = fluid, folder, steps
        self.keep_random, self.repeats, self.as_array = keep_random, repeats, as_array
        self.recorded, self.programs, self.plain = [], {}, {}
        self.state, self.parameters, self.random = {}, set(), set()
        self.zeroed, self.digests, self.names = 0, [], []
        self.executor, self.startup = None, None
        self.real = fluid.Executor.run

    def install(self):
        """Takes the place of `Executor.run`."""
        recorder = self

        def run(executor, program=None, feed=None, fetch_list=None, *rest, **options):
            return recorder.run(executor, program, feed, fetch_list, rest, options)

        self.fluid.Executor.run = run

    def run(self, executor, program, feed, fetch_list, rest, options):
        """A call of the script's."""
        program = self.fluid.default_main_program() if program is None else program
        program = getattr(program, "_program", program) or program
        fetches = [one if is_text(one) else one.name for one in as_list(fetch_list)]
        reads = read_names(program)
        if not feed and not fetches and not reads:  # start-up, saving, loading
            if self.startup is None:
                self.startup = serialized(program)
            return self.real(executor, program, feed, fetch_list, *rest, **options)
        if isinstance(feed, (list, tuple)):
            if len(feed) != 1:
                sys.exit("fluid_recorder: a list of feeds for several places can't be recorded")
            feed = feed[0]
        # After fetch_list: feed_var_name, fetch_var_name, scope, return_numpy.
        given = dict(zip(("feed_var_name", "fetch_var_name", "scope", "return_numpy"), rest))
        given.update(options)
        scope = given.get("scope") or self.fluid.global_scope()
        self.prepare(executor, program)
        self.keep_state(program, scope)
        found = self.call(executor, program, feed, fetches + reads, scope)
        self.keep(program, feed or {}, fetches, reads, found, scope)
        if len(self.recorded) >= self.steps:
            raise Stop(0)
        results = found[: len(fetches)]
        return (
            [self.numbers(one) for one in results] if given.get("return_numpy", True) else results
        )

    def call(self, executor, program, feed, fetches, scope):
        """The real run, which gives tensors."""
        return self.real(
            executor, program, feed=feed, fetch_list=fetches, scope=scope, return_numpy=False
        )

    def numbers(self, value):
        """What the script gets where it asks for arrays."""
        if not is_tensor(value):
            return [self.numbers(one) for one in value]
        if value.recursive_sequence_lengths():
            raise RuntimeError("a fetched tensor holds LoD information; set return_numpy=False")
        return self.as_array(value)

    def prepare(self, executor, program):
        """Turns dropout off, the first time that a program comes."""
        self.executor = executor
        if getattr(program, "_is_recorded", False):
            return
        program._is_recorded = True
        for block in program.blocks:
            for op in block.ops:
                tests = op.has_attr("is_test") and op.attr("is_test")
                drops = op.type in ("dropout", "dropout_grad") and not tests
                if drops and not self.keep_random:
                    op._set_attr("dropout_prob", 0.0)
                    self.zeroed += 1
                elif drops or op.type in RANDOM:
                    self.random.add(op.type)

    def keep_state(self, program, scope):
        """Keeps the variables that outlive a run, as they are when they are first seen."""
        self.parameters.update(one.name for one in program.global_block().all_parameters())
        for var in program.list_vars():
            if var.persistable and var.name not in self.state:
                value = value_of(scope, var.name)
                if value is not None:
                    self.state[var.name] = value

    def keep(self, program, feed, fetches, reads, found, scope):
        """Keeps one run."""
        data = serialized(program)
        tag = "p%08x" % (zlib.crc32(data) & 0xFFFFFFFF)
        self.programs[tag], self.plain[tag] = data, without_readers(program)
        feeds = dict((name, fed(program, name, feed[name])) for name in feed)
        feeds.update(zip(reads, [parts(one)[""] for one in found[len(fetches) :]]))
        results = {}
        for place, value in enumerate(found[: len(fetches)]):
            for suffix, one in parts(value).items():
                results[str(place) + suffix] = one
        self.recorded.append(Step(tag, feeds, fetches, results))
        if not self.names:
            self.names = sorted(name for name in self.state if self.state[name][0].size)
        self.digests.append(self.digest_all(scope))
        del self.digests[1:-1]
        print("fluid_recorder: run %d of %d" % (len(self.recorded), self.steps), file=sys.stderr)

    def digest_all(self, scope):
        return np.array([digest(value_of(scope, name)[0]) for name in self.names])

    def spreads(self):
        """How far results move: from the same state (how often Fluid repeats itself), and from
        changed parameters."""
        again = self.repeat(None)
        found = {}
        for seed in range(self.repeats):
            for key, error in self.repeat(seed).items():
                found[key] = max(found.get(key, 0.0), error)
        return max(list(again.values()) or [0.0]), found

    def repeat(self, seed):
        """Runs all steps again; "STEP RESULT" -> how far that is from what was recorded."""
        scope, place = self.fluid.Scope(), self.executor.place
        draw = np.random.RandomState(seed or 0)
        for name in sorted(self.state):
            array, lengths = self.state[name]
            if seed is not None and name in self.parameters and array.dtype == np.float32:
                change = 1.0 + draw.uniform(-NOISE, NOISE, array.shape)
                array = (array.astype(np.float64) * change).astype(np.float32)
            fill(scope.var(name).get_tensor(), array, lengths, place)
        found, last = {}, len(self.recorded) - 1
        for number, step in enumerate(self.recorded):
            feed = {}
            for name, (array, lengths) in step.feeds.items():
                feed[name] = self.fluid.LoDTensor()
                fill(feed[name], array, lengths, place)
            values = self.call(self.executor, self.plain[step.tag], feed, step.fetches, scope)
            for index, value in enumerate(values):
                for suffix, (array, _) in parts(value).items():
                    label = "%d%s" % (index, suffix)
                    if label in step.results:
                        error = relative_error(array, step.results[label][0])
                        found["%d fetch.%s" % (number, label)] = error
            if number in (0, last):
                digests = self.digest_all(scope)
                for name, got, want in zip(self.names, digests, self.digests[-1 if number else 0]):
                    size = self.state[name][0].size
                    found["%d %s" % (number, name)] = digest_error(got, want, size)
        return found

    def write(self):
        """Writes the recording, where there is one; whether there is."""
        if not self.recorded:
            print("fluid_recorder: the script fed and fetched nothing", file=sys.stderr)
            return False
        if not os.path.isdir(self.folder):
            os.makedirs(self.folder)
        for tag, data in self.programs.items():
            self.put("main_%s.pb" % tag, data)
        if self.startup is not None:
            self.put("startup.pb", self.startup)
        np.savez_compressed(self.path("state.npz"), **flat("state", self.state))
        arrays = {}
        for number, step in enumerate(self.recorded):
            arrays.update(flat("r%d.feed" % number, step.feeds))
            arrays.update(flat("r%d.fetch" % number, step.results))
        np.savez_compressed(self.path("steps.npz"), **arrays)
        np.savez(self.path("digest.npz"), first=self.digests[0], last=self.digests[-1])
        again, spreads = (0.0, {}) if self.random else self.spreads()
        if spreads:
            self.put("spread.json", json.dumps(spreads, indent=1, sort_keys=True).encode("ascii"))
        if again > 1e-4:
            print(
                "fluid_recorder: the same steps once more differ by %.1e; does the script set "
                "variables between runs?" % again,
                file=sys.stderr,
            )
        self.put("meta.json", json.dumps(self.facts(again), indent=1, sort_keys=True).encode())
        print("fluid_recorder: %d runs in %s" % (len(self.recorded), self.folder), file=sys.stderr)
        return True

    def facts(self, again):
        """What meta.json says."""
        return {
            "model": os.path.splitext(os.path.basename(sys.argv[0]))[0],
            "source": sys.argv,
            "runs": [{"program": one.tag, "fetch": one.fetches} for one in self.recorded],
            "losses": [first_number(one.results) for one in self.recorded],
            "digest_names": self.names,
            "const": [],
            "seeded": [],
            "random_live": sorted(self.random),
            "dropout_zeroed": self.zeroed,
            "repeats_itself_within": again,
            "versions": {
                "paddle": getattr(sys.modules.get("paddle"), "__version__", ""),
                "numpy": np.__version__,
                "python": sys.version.split()[0],
            },
        }

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)


# -- programs and values of Fluid --------------------------------------------------------


def is_text(value):
    return isinstance(value, ("".__class__, "".__class__))


def as_list(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def is_tensor(value):
    return hasattr(value, "recursive_sequence_lengths")


def serialized(program):
    return getattr(program, "desc", program).serialize_to_string()


def reader_places(program):
    """Positions of the operators of the first block that have to do with readers."""
    places = []
    block = program.global_block()
    for place, op in enumerate(block.ops):
        names = op.input_arg_names + op.output_arg_names
        kinds = [str(block.var(name).type) for name in names if block.has_var(name)]
        if any(kind.endswith("READER") for kind in kinds):
            places.append(place)
    return places


def read_names(program):
    """What readers give in a step."""
    ops = program.global_block().ops
    return [name for op in ops if op.type == "read" for name in op.output("Out")]


def without_readers(program):
    """The program itself, or a copy that is fed what its readers give."""
    places = reader_places(program)
    if places:
        program = program.clone()
        for place in reversed(places):
            program.global_block()._remove_op(place)
    return program


def parts(value):
    """The arrays of a fetched value with their sequence lengths; of an array of tensors each."""
    if is_tensor(value):
        return {"": (np.array(value), value.recursive_sequence_lengths())}
    found = {}
    for place, one in enumerate(value):
        found[".%d" % place] = parts(one)[""]
    return found


def fed(program, name, value):
    """What the script feeds, as an array and sequence lengths."""
    if is_tensor(value):
        return np.array(value), value.recursive_sequence_lengths()
    array = np.array(value)
    if not isinstance(value, np.ndarray) and program.global_block().has_var(name):
        kind = int(program.global_block().var(name).dtype)
        array = array.astype(DTYPES[kind]) if kind < len(DTYPES) else array
    return array, []


def value_of(scope, name):
    """A variable's array and lengths; None where it has none."""
    var = scope.find_var(name)
    try:
        tensor = None if var is None else var.get_tensor()
        if tensor is None or not tensor._is_initialized():
            return None
        return np.array(tensor), tensor.recursive_sequence_lengths()
    except Exception:  # selected rows, readers and other things that are no tensors
        return None


def fill(tensor, array, lengths, place):
    tensor.set(array, place)
    if lengths:
        tensor.set_recursive_sequence_lengths(lengths)


def flat(start, values):
    """Arrays by the names that they have in the files."""
    found = {}
    for name, (array, lengths) in values.items():
        found["%s.%s" % (start, name)] = array
        if lengths:
            found["%slod.%s" % (start, name)] = np.array(json.dumps(lengths))
    return found


def first_number(results):
    array = results["0"][0] if "0" in results else np.zeros(0)
    return float(array.ravel()[0]) if array.size else None


# -- how far values are apart, as refluid/verify/metrics.py has it -----------------------


def relative_error(actual, expected):
    if actual.shape != expected.shape:
        return float("inf")
    if actual.size == 0 or np.array_equal(actual, expected):
        return 0.0
    a, b = actual.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    finite = np.isfinite(b)
    a, b = a[finite], b[finite]
    if not b.size:
        return 0.0
    scale = np.abs(b) + np.abs(b).mean()
    scale = np.where(scale > 0, scale, np.abs(a))
    excess = np.maximum(np.abs(a - b) - FLOOR, 0.0)
    errors = np.where(excess > 0, excess / np.where(scale > 0, scale, 1.0), 0.0)
    return float(np.where(np.isnan(errors), np.inf, errors).max())


def digest(array):
    """Sum, sum of magnitudes, sum of squares, first, middle and last element."""
    values = array.astype(np.float64).ravel()
    sums = [values.sum(), np.abs(values).sum(), np.square(values).sum()]
    return np.array(sums + [values[0], values[values.size // 2], values[-1]])


def digest_error(got, want, size):
    typical = np.sqrt(want[2] / size)
    floor = FLOOR if typical > FLOOR else 10 * FLOOR
    edges = np.maximum(np.abs(want[3:]), typical)
    scale = np.concatenate([[want[1], want[1], want[2]], edges])
    off = floor * (1.0 + typical)
    sums = size * off
    slack = np.concatenate([[sums, sums, sums * (2 * typical + off)], floor * (1.0 + edges)])
    excess = np.maximum(np.abs(got - want) - slack, 0.0)
    return float(np.max(excess / np.maximum(scale, 1e-30)))


def run_file(script):
    """Runs a file as `__main__`."""
    runpy.run_path(script, run_name="__main__")


def record(fluid, options, as_array=np.array, run=run_file):
    """Runs the script under a recorder; its exit status."""
    sys.argv = [options.script] + options.arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    recorder = Recorder(
        fluid, options.out, options.steps, options.keep_random, options.repeats, as_array
    )
    recorder.install()
    status = 0
    try:
        run(options.script)
    except Stop:
        pass
    except SystemExit as end:
        status = end.code
    finally:
        fluid.Executor.run = recorder.real
        done = recorder.write()
    return status if done else status or 1


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="folder for the recording")
    parser.add_argument("--steps", type=int, default=5, help="how many runs (default 5)")
    parser.add_argument("--repeats", type=int, default=4, help="runs that measure rounding")
    parser.add_argument("--keep-random", action="store_true", help="leave dropout on")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    options = parse(sys.argv[1:])
    import paddle.fluid

    sys.exit(record(paddle.fluid, options))

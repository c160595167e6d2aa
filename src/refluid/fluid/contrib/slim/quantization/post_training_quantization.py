"""A trained model quantised by what its layers give for some batches, without training.

The parameters are those that PaddleSlim's `quant_post` documents.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch

from refluid.core.scope import Scope
from refluid.fluid import core, io
from refluid.fluid.contrib.slim.quantization.activations import AddQuantDequantPass
from refluid.fluid.contrib.slim.quantization.inserting import SLOTS, ScopeValues, one_of
from refluid.fluid.contrib.slim.quantization.quantization_pass import (
    QuantizationFreezePass,
    QuantizationTransformPass,
)
from refluid.fluid.contrib.slim.quantization.thresholds import (
    Greatest,
    LeastDivergence,
    Threshold,
)
from refluid.fluid.contrib.slim.quantization.weight_quantization import WeightQuantization
from refluid.fluid.executor import Executor, global_scope, scope_guard
from refluid.fluid.graphs.ir_graph import IrGraph
from refluid.fluid.reader import DataLoader
from refluid.ir.program import Program

__all__ = ["PostTrainingQuantization", "WeightQuantization"]

_LOGGER = logging.getLogger("refluid")
_ALGORITHMS = ("KL", "abs_max", "direct")
_SCALES = (".quant_dequant.scale", ".scale")  # the longer one first: it ends as the other does


class PostTrainingQuantization:
    """Finds scales of activations by some batches, has operators compute with whole numbers.

    executor: loads, runs and saves the model of `save_inference_model` in model_dir.
    sample_generator gives samples, of which batches of batch_size are made; fields after those that
    the model is fed are left out. batch_generator gives batches; one of the two. batch_nums: how
    many batches are looked at, all by default. algo: `KL`, or `abs_max` (`direct`) for the greatest
    magnitudes. is_full_quantize: all types of operators that can be. activation_quantize_type: of
    the operators that are put in; those of `abs_max` take the scale of each batch anew.
    is_use_cache_file and cache_dir have no effect: batches are counted as they come, none is kept.

    Raises ValueError for what is missing, for two generators, and for unknown algorithms or types.
    """

    _supported: ClassVar[list[str]] = [
        *SLOTS,
        *AddQuantDequantPass._supported_quantizable_op_type,
        *AddQuantDequantPass._activation_type,
    ]

    def __init__(
        self,
        executor: Executor | None = None,
        scope: Scope | None = None,
        model_dir: str | None = None,
        model_filename: str | None = None,
        params_filename: str | None = None,
        batch_generator: Callable[[], Any] | None = None,
        sample_generator: Callable[[], Any] | None = None,
        batch_size: int = 10,
        batch_nums: int | None = None,
        algo: str = "KL",
        quantizable_op_type: Sequence[str] = ["conv2d", "depthwise_conv2d", "mul"],
        is_full_quantize: bool = False,
        activation_bits: int = 8,
        weight_bits: int = 8,
        activation_quantize_type: str = "range_abs_max",
        weight_quantize_type: str = "channel_wise_abs_max",
        is_use_cache_file: bool = False,
        cache_dir: str = "./temp_post_training",
    ) -> None:
        if executor is None or model_dir is None:
            raise ValueError("executor and model_dir can't be None")
        if (sample_generator is None) == (batch_generator is None):
            raise ValueError("give one of sample_generator and batch_generator")
        one_of("algo", algo, _ALGORITHMS)
        types = self._supported if is_full_quantize else list(quantizable_op_type)
        for type in types:
            one_of("quantizable_op_type", type, self._supported)
        if is_use_cache_file:
            _LOGGER.info("is_use_cache_file has no effect: no batch is kept")
        self._executor, self._scope = executor, scope or global_scope()
        self._model = model_dir, model_filename, params_filename
        self._generators = sample_generator, batch_generator, batch_size
        self._batches, self._algorithm = batch_nums, algo
        self._weighted = [type for type in types if type in SLOTS]
        self._others = [type for type in types if type not in SLOTS]
        self._activation_bits, self._weight_bits = activation_bits, weight_bits
        self._activation_type, self._weight_type = activation_quantize_type, weight_quantize_type
        self._made: tuple[Program, list[str], list[str]] | None = None

    def quantize(self) -> Program:
        """The quantised program, whose weights in the scope are whole numbers."""
        place, scope = self._executor.place, self._scope
        with scope_guard(scope):
            program, feeds, fetches = io.load_inference_model(
                self._model[0], self._executor, self._model[1], self._model[2]
            )
            graph = IrGraph(core.Graph(program.desc), for_test=True)
            thresholds = self._watch(program, feeds, self._scales_put_into(graph))
            for name, threshold in thresholds.items():
                if threshold.found():  # else all were 0, whatever they are divided by
                    ScopeValues(scope, place).put(name, np.array([threshold.found()], "float32"))
            freeze = QuantizationFreezePass(
                scope, place, self._weight_bits, self._activation_bits, self._weight_type
            )
            made = freeze.apply(graph).to_program()
        self._made = made, list(feeds), [one.name for one in fetches]
        return made

    def save_quantized_model(
        self,
        save_model_path: str,
        model_filename: str | None = None,
        params_filename: str | None = None,
    ) -> None:
        """Saves it as `save_inference_model` does. ValueError before `quantize`."""
        if self._made is None:
            raise ValueError("there is no quantised model yet: call quantize() first")
        program, feeds, fetches = self._made
        targets = [program.global_block().var(name) for name in fetches]
        with scope_guard(self._scope):
            io.save_inference_model(
                save_model_path,
                feeds,
                targets,
                self._executor,
                program,
                model_filename,
                params_filename,
            )

    def _scales_put_into(self, graph: IrGraph) -> dict[str, str]:
        """Changes the graph; the names of the scales that are kept -> the variables' names."""
        before = {node.name() for node in graph.all_persistable_nodes()}
        self._put_operators(graph)
        made = {node.name() for node in graph.all_persistable_nodes()} - before
        return {name: name.removesuffix(next(filter(name.endswith, _SCALES))) for name in made}

    def _put_operators(self, graph: IrGraph) -> None:
        place = self._executor.place
        if self._weighted:
            QuantizationTransformPass(
                self._scope,
                place,
                self._weight_bits,
                self._activation_bits,
                self._activation_type,
                self._weight_type,
                quantizable_op_type=self._weighted,
            ).apply(graph)
        if self._others:
            AddQuantDequantPass(
                self._scope,
                place,
                quant_bits=self._activation_bits,
                quantizable_op_type=self._others,
            ).apply(graph)

    def _watch(
        self, program: Program, feeds: Sequence[str], scaled: dict[str, str]
    ) -> dict[str, Threshold]:
        """A threshold for each scale, after all batches."""
        names = sorted(set(scaled.values()))
        found = {name: self._threshold() for name in names}
        count = 0
        for feed in self._data(program, feeds):
            values = self._executor.run(program, feed=feed, fetch_list=names)
            for name, value in zip(names, values, strict=True):
                found[name].see(torch.from_numpy(np.asarray(value)))
            count += 1
            if count % 5 == 0:
                _LOGGER.info("quantising: %d batches looked at", count)
        if not count:
            raise ValueError("the generator gave no batch")
        return {scale: found[name] for scale, name in scaled.items()}

    def _threshold(self) -> Threshold:
        if self._algorithm != "KL":
            return Greatest()
        return LeastDivergence(2 ** (self._activation_bits - 1))

    def _data(self, program: Program, feeds: Sequence[str]) -> Iterator[Any]:
        samples, batches, size = self._generators
        block = program.global_block()
        variables = [block.var(name) for name in feeds]
        loader = DataLoader.from_generator(feed_list=variables, capacity=8, iterable=True)
        place = self._executor.place
        if samples is not None:
            # Readers for training give labels as well.
            fed = partial(_first_fields, samples, len(variables))
            loader.set_sample_generator(fed, size, drop_last=True, places=[place])
        elif batches is not None:
            loader.set_batch_generator(batches, places=[place])
        return islice(loader(), self._batches)


def _first_fields(samples: Callable[[], Any], count: int) -> Iterator[tuple[Any, ...]]:
    return (tuple(sample[:count]) for sample in samples())

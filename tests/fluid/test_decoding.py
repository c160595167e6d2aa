"""Decoders: teacher forcing trains, greedy decoding is beam search with one beam."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.fluid.once import fed, own_programs, run, values

L = fluid.layers


@pytest.fixture(autouse=True)
def _own_programs() -> Iterator[None]:
    with own_programs():
        yield


def _embed(ids: fluid.Variable) -> fluid.Variable:
    return fluid.embedding(ids, [6, 3], param_attr=fluid.ParamAttr(name="words"))


def _score(out: fluid.Variable) -> fluid.Variable:
    attr = fluid.ParamAttr(name="scores")
    return L.fc(out, 6, num_flatten_dims=len(out.shape) - 1, param_attr=attr, bias_attr=False)


def _states(cell: Any) -> Any:
    return cell.get_initial_states(fluid.data("batch", [-1, 3]))


def test_decoder_trains_on_given_words() -> None:
    words = fluid.data("words_in", [-1, 4], "int64")
    lengths = fluid.data("n", [-1], "int64")
    cell = L.LSTMCell(3)
    helper = L.TrainingHelper(_embed(words), lengths)
    decoder = L.BasicDecoder(cell, helper, output_fn=_score)
    outputs, _, counted = L.dynamic_decode(decoder, inits=_states(cell), return_length=True)
    loss = L.reduce_mean(
        L.softmax_with_cross_entropy(outputs.cell_outputs, L.unsqueeze(words, [2]))
    )
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {
        "words_in": np.array([[1, 2, 3, 4], [2, 1, 0, 0]]),
        "n": np.array([4, 2]),
        "batch": values(2, 3),
    }
    losses = [exe.run(feed=feed, fetch_list=[loss, counted]) for _ in range(5)]
    assert losses[-1][0] < losses[0][0]
    assert losses[0][1].tolist() == [4, 2]


@pytest.mark.parametrize("is_test", [False, True])
def test_greedy_decoding_is_beam_search_with_one_beam(is_test: bool) -> None:
    cell = L.GRUCell(3)
    start = L.fill_constant_batch_size_like(fluid.data("like", [-1, 1]), [-1], "int64", 0)
    helper = L.GreedyEmbeddingHelper(_embed, start, end_token=1)
    greedy, _ = L.dynamic_decode(
        L.BasicDecoder(cell, helper, output_fn=_score),
        inits=_states(cell),
        max_step_num=4,
        is_test=is_test,
    )
    search = L.BeamSearchDecoder(cell, 0, 1, 1, embedding_fn=_embed, output_fn=_score)
    found, _ = L.dynamic_decode(search, inits=_states(cell), max_step_num=4, is_test=is_test)
    one, other = run(
        [greedy.sample_ids, found], like=np.zeros((2, 1), "float32"), batch=values(2, 3)
    )
    assert one.shape[0] == 2 and 1 <= one.shape[1] <= 5
    assert np.array_equal(one, other[:, :, 0])


def test_beams_are_repeated_rows() -> None:
    x = fed(-1, 2)
    made = L.BeamSearchDecoder.tile_beam_merge_with_batch(x, 3)
    value = values(2, 2)
    assert np.array_equal(run([made], x=value)[0], value.repeat(3, 0))


class _OwnStep(L.BeamSearchDecoder):  # type: ignore[misc]
    """Calls the parts of a step itself, as decoders of public scripts do."""

    def step(self, time: Any, inputs: Any, states: Any, **kwargs: Any) -> Any:
        merged = [self._merge_batch_beams(one) for one in (inputs, states.cell_states)]
        outputs, after = self.cell(*merged, **kwargs)
        logits = self.output_fn(self._split_batch_beams(outputs))
        made, state = self._beam_search_step(
            time=time,
            logits=logits,
            next_cell_states=self._split_batch_beams(after),
            beam_state=states,
        )
        return made, state, self.embedding_fn(made.predicted_ids), state.finished


def test_a_decoder_of_ones_own_is_made_of_the_parts() -> None:
    cell, found = L.GRUCell(3), []
    for kind in (L.BeamSearchDecoder, _OwnStep):
        decoder = kind(cell, 0, 1, 3, embedding_fn=_embed, output_fn=_score)
        made, _ = L.dynamic_decode(decoder, inits=_states(cell), max_step_num=5)
        found.append(made)
    one, other = run(found, batch=values(2, 3))
    assert np.array_equal(one, other)

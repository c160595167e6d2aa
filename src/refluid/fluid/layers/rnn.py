"""Recurrent networks: cells and what runs them, decoders, and recurrent layers of one operator."""

from refluid.fluid.layers.beams import beam_search, beam_search_decode
from refluid.fluid.layers.decode_helpers import (
    BasicDecoder,
    DecodeHelper,
    GreedyEmbeddingHelper,
    SampleEmbeddingHelper,
    TrainingHelper,
)
from refluid.fluid.layers.decoders import BeamSearchDecoder, Decoder
from refluid.fluid.layers.dynamic_decoding import dynamic_decode
from refluid.fluid.layers.recurrent import dynamic_gru, dynamic_lstm, dynamic_lstmp, lstm
from refluid.fluid.layers.recurrent_steps import gru_unit, lstm_unit
from refluid.fluid.layers.rnn_cells import GRUCell, LSTMCell, RNNCell
from refluid.fluid.layers.rnn_unrolled import rnn

__all__ = [
    "BasicDecoder",
    "BeamSearchDecoder",
    "DecodeHelper",
    "Decoder",
    "GRUCell",
    "GreedyEmbeddingHelper",
    "LSTMCell",
    "RNNCell",
    "SampleEmbeddingHelper",
    "TrainingHelper",
    "beam_search",
    "beam_search_decode",
    "dynamic_decode",
    "dynamic_gru",
    "dynamic_lstm",
    "dynamic_lstmp",
    "gru_unit",
    "lstm",
    "lstm_unit",
    "rnn",
]

"""Recurrent networks: cells and what runs them, decoders, and recurrent layers of one operator."""

from refluid.fluid.functions.rnn.beam import beam_search, beam_search_decode
from refluid.fluid.functions.rnn.cells import GRUCell, LSTMCell, RNNCell
from refluid.fluid.functions.rnn.decode_helpers import (
    BasicDecoder,
    DecodeHelper,
    GreedyEmbeddingHelper,
    SampleEmbeddingHelper,
    TrainingHelper,
)
from refluid.fluid.functions.rnn.decoders import BeamSearchDecoder, Decoder
from refluid.fluid.functions.rnn.dynamic_decoding import dynamic_decode
from refluid.fluid.functions.rnn.recurrent import dynamic_gru, dynamic_lstm, dynamic_lstmp, lstm
from refluid.fluid.functions.rnn.recurrent_units import gru_unit, lstm_unit
from refluid.fluid.functions.rnn.unrolled import rnn

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

"""Where Fluid keeps its decoders: cells, the decoder for training and the one by beam search."""

from refluid.fluid.contrib.decoder.searching import BeamSearchDecoder
from refluid.fluid.contrib.decoder.state_cell import InitState, StateCell
from refluid.fluid.contrib.decoder.training import TrainingDecoder

__all__ = ["BeamSearchDecoder", "InitState", "StateCell", "TrainingDecoder"]

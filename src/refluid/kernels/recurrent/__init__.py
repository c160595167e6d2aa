"""Recurrent units over sequences: a product or two and compiled loops for each step.

Rows are brought into the order of the steps, and back, as a step reads and writes them.
"""

from refluid.kernels.recurrent.gru import gru_gradients as gru_gradients
from refluid.kernels.recurrent.gru import gru_steps as gru_steps
from refluid.kernels.recurrent.lstm import lstm_gradients as lstm_gradients
from refluid.kernels.recurrent.lstm import lstm_steps as lstm_steps

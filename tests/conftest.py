"""Settings shared by every test."""

from __future__ import annotations

import torch

# More threads than cores slow small operators down, and test machines are often shared.
torch.set_num_threads(2)

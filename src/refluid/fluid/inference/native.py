"""`NativeConfig`: a saved model that is run as it was saved."""

from __future__ import annotations

import torch

from refluid.core.bounds import whole_number


class NativeConfig:
    """A saved model and where it runs; nothing is done to it before.

    model_dir, or prog_file and param_file. use_gpu: on the GPU `device`. fraction_of_gpu_memory:
    kept, torch takes what it needs.
    """

    def __init__(self) -> None:
        self.model_dir = self.prog_file = self.param_file = ""
        self.use_gpu, self.device = False, 0
        self.fraction_of_gpu_memory = -1.0
        self.specify_input_name = False
        self._threads: int | None = None

    def set_cpu_math_library_num_threads(self, threads: int) -> None:
        """Each operator uses so many threads."""
        self._threads = whole_number("cpu_math_library_num_threads", threads, least=1)

    def cpu_math_library_num_threads(self) -> int:
        """Threads of each operator."""
        return torch.get_num_threads() if self._threads is None else self._threads

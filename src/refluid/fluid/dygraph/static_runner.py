"""`StaticModelRunner`: a model that was saved for inference, as a layer of dygraph."""

from __future__ import annotations

from functools import partial

from refluid.fluid.dygraph.translation.saved import SavedLayer, loaded
from refluid.fluid.saving.inference_model import load_inference_model

__all__ = ["StaticModelRunner"]


class StaticModelRunner(SavedLayer):
    """What `save_inference_model` saved, to run at once and to train on.

    model_dir: the folder. model_filename, params_filename: as they were saved; `__model__` and a
    file for each variable unless given.
    """

    def __init__(
        self,
        model_dir: str,
        model_filename: str | None = None,
        params_filename: str | None = None,
    ) -> None:
        load = partial(
            load_inference_model,
            model_dir,
            model_filename=model_filename,
            params_filename=params_filename,
        )
        super().__init__(loaded(load))

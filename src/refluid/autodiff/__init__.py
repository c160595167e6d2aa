"""Gradients: operators that compute them are appended to the program they belong to."""

from refluid.autodiff.backward import append_backward
from refluid.autodiff.gradients import gradients

__all__ = ["append_backward", "gradients"]

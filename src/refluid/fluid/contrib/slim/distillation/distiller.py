"""Losses between a student and a teacher in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid import layers
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper
from refluid.ir.defaults import program_guard

__all__ = ["FSPDistiller", "L2Distiller", "SoftLabelDistiller"]

Pairs = Sequence[Sequence[str]]


class L2Distiller:
    """The mean square of the difference of two feature maps, times a weight.

    Maps are named by their variables, and have the same shape.
    """

    def __init__(
        self,
        student_feature_map: str,
        teacher_feature_map: str,
        distillation_loss_weight: float = 1,
    ) -> None:
        self.student_feature_map, self.teacher_feature_map = (
            student_feature_map,
            teacher_feature_map,
        )
        self.distillation_loss_weight = distillation_loss_weight

    def distiller_loss(self, graph: GraphWrapper) -> GraphWrapper:
        """The graph with this loss added to the one that it minimises."""
        return L2DistillerPass(
            self.student_feature_map, self.teacher_feature_map, self.distillation_loss_weight
        ).apply(graph)


class L2DistillerPass:
    """Appends the loss of `L2Distiller` to a graph."""

    def __init__(
        self,
        student_feature_map: str,
        teacher_feature_map: str,
        distillation_loss_weight: float = 1,
    ) -> None:
        self.student, self.teacher = student_feature_map, teacher_feature_map
        self.weight = distillation_loss_weight

    def apply(self, graph: GraphWrapper) -> GraphWrapper:
        """The graph, changed."""
        with program_guard(graph.program):
            student, teacher = _maps(graph, self.student, self.teacher)
            difference = layers.square(student - teacher)
            loss = layers.reduce_mean(difference) * float(self.weight)
            return _added(graph, f"l2loss_{self.student}_{self.teacher}", loss)


class SoftLabelDistiller:
    """The cross entropy of two softmaxes, each of a feature map divided by its temperature."""

    def __init__(
        self,
        student_feature_map: str | None = None,
        teacher_feature_map: str | None = None,
        student_temperature: float = 1.0,
        teacher_temperature: float = 1.0,
        distillation_loss_weight: float = 1,
    ) -> None:
        self.student_feature_map, self.teacher_feature_map = (
            student_feature_map,
            teacher_feature_map,
        )
        self.student_temperature, self.teacher_temperature = (
            student_temperature,
            teacher_temperature,
        )
        self.distillation_loss_weight = distillation_loss_weight

    def distiller_loss(self, graph: GraphWrapper) -> GraphWrapper:
        """The graph with this loss added to the one that it minimises."""
        return SoftLabelDistillerPass(
            str(self.student_feature_map),
            str(self.teacher_feature_map),
            self.student_temperature,
            self.teacher_temperature,
            self.distillation_loss_weight,
        ).apply(graph)


class SoftLabelDistillerPass:
    """Appends the loss of `SoftLabelDistiller` to a graph."""

    def __init__(
        self,
        student_feature_map: str,
        teacher_feature_map: str,
        student_temperature: float,
        teacher_temperature: float,
        distillation_loss_weight: float = 1,
    ) -> None:
        self.student, self.teacher = student_feature_map, teacher_feature_map
        self.temperatures = student_temperature, teacher_temperature
        self.weight = distillation_loss_weight

    def apply(self, graph: GraphWrapper) -> GraphWrapper:
        """The graph, changed."""
        with program_guard(graph.program):
            student, teacher = (
                layers.softmax(one / float(temperature))
                for one, temperature in zip(
                    _maps(graph, self.student, self.teacher), self.temperatures, strict=True
                )
            )
            teacher.stop_gradient = True
            entropy = layers.cross_entropy(student, teacher, soft_label=True)
            loss = layers.reduce_mean(entropy) * float(self.weight)
            return _added(graph, f"soft_label_loss_{self.student}_{self.teacher}", loss)


class FSPDistiller:
    """The mean square of the difference of two flow (FSP) matrices, for each of several sections.

    A section is the names of the feature maps at its beginning and its end, of one height and
    width; section i of the student goes with section i of the teacher.
    """

    def __init__(
        self, student_pairs: Pairs, teacher_pairs: Pairs, distillation_loss_weight: float = 1
    ) -> None:
        self.student_pairs, self.teacher_pairs = student_pairs, teacher_pairs
        self.distillation_loss_weight = distillation_loss_weight

    def distiller_loss(self, graph: GraphWrapper) -> GraphWrapper:
        """The graph with this loss added to the one that it minimises."""
        return FSPDistillerPass(
            self.student_pairs, self.teacher_pairs, self.distillation_loss_weight
        ).apply(graph)


class FSPDistillerPass:
    """Appends the loss of `FSPDistiller` to a graph."""

    def __init__(self, s_pairs: Pairs, t_pairs: Pairs, distillation_loss_weight: float = 1) -> None:
        self.students, self.teachers = s_pairs, t_pairs
        self.weight = distillation_loss_weight

    def apply(self, graph: GraphWrapper) -> GraphWrapper:
        """The graph, changed."""
        with program_guard(graph.program):
            losses = []
            for student, teacher in zip(self.students, self.teachers, strict=True):
                mine = layers.fsp_matrix(*_maps(graph, *student))
                other = layers.fsp_matrix(*_maps(graph, *teacher))
                losses.append(layers.reduce_mean(layers.square(mine - other)))
            loss = layers.sum(losses) * float(self.weight)
            return _added(graph, "fsp_distillation_loss", loss)


def _maps(graph: GraphWrapper, *names: str) -> list[Any]:
    return [graph.var(name)._var for name in names]


def _added(graph: GraphWrapper, title: str, loss: Any) -> GraphWrapper:
    """The graph minimises what it did, and the loss too, which is fetched by itself as well."""
    graph.out_nodes[title] = loss.name
    if "loss" in graph.out_nodes:
        loss = loss + _maps(graph, graph.out_nodes["loss"])[0]
    graph.out_nodes["loss"] = loss.name
    return graph

"""The best tags of sequences, by what each place and each transition scores."""

from __future__ import annotations

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.nn.layer.layers import Layer


def viterbi_decode(
    potentials: Variable,
    transition_params: Variable,
    lengths: Variable,
    include_bos_eos_tag: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """The score (N,) and the tags (N, longest), int64, of the best way through each sequence.

    potentials: (N, times, tags), float32 or float64, of which `lengths` (N,) times count; tags
    after them are 0. transition_params: (tags, tags), from tag to tag. include_bos_eos_tag: its
    last row is added to what comes first, its last but one to what comes last.
    """
    inputs = {"Input": potentials, "Transition": transition_params, "Length": lengths}
    attrs = {"include_bos_eos_tag": include_bos_eos_tag}
    scores, path = op("viterbi_decode", inputs, attrs, ("Scores", "Path"), name=name)
    return scores, path


class ViterbiDecoder(Layer):
    """`viterbi_decode` with these transitions: `decoder(potentials, lengths)`."""

    def __init__(
        self, transitions: Variable, include_bos_eos_tag: bool = True, name: str | None = None
    ) -> None:
        super().__init__()
        self.transitions = transitions
        self.include_bos_eos_tag, self.name = include_bos_eos_tag, name

    def forward(self, potentials: Variable, lengths: Variable) -> tuple[Variable, Variable]:
        """The score and the tags of the best way through each sequence."""
        return viterbi_decode(
            potentials, self.transitions, lengths, self.include_bos_eos_tag, self.name
        )

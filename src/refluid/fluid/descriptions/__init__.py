"""Programs, blocks, operators and variables as Fluid's descriptions spell them.

    op.desc.set_input("X", ["y"]);  block.desc.append_op();  program.desc.block(0).op_size()

A description is a view: what it changes is the program's own.
"""

from refluid.fluid.descriptions.blocks import BlockDesc, ProgramDesc
from refluid.fluid.descriptions.parts import OpDesc, VarDesc
from refluid.ir.block import Block
from refluid.ir.described import describe_by
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Variable

__all__ = ["BlockDesc", "OpDesc", "ProgramDesc", "VarDesc"]

describe_by({Block: BlockDesc, Operator: OpDesc, Program: ProgramDesc, Variable: VarDesc})

"""`FleetUtil`'s part about program files: drawn, told, turned into the other format, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

from refluid.core.errors import EnforceNotMet
from refluid.fluid.incubate.fleet.utils import utils
from refluid.ir.program import Program


class ProgramChecks:
    """What needs no fleet."""

    def draw_from_program(self, program: Program, output_dir: str, output_name: str) -> None:
        """Draws the first block: OUTPUT_NAME.dot, and a pdf where Graphviz is installed."""
        utils.graphviz(program.global_block(), output_dir, output_name)

    def draw_from_program_file(
        self, model_filename: str, is_text: bool, output_dir: str, output_filename: str
    ) -> None:
        """Draws the program of a file."""
        program = utils.load_program(model_filename, is_text)
        self.draw_from_program(program, output_dir, output_filename)

    def program_type_trans(self, prog_dir: str, prog_fn: str, is_text: bool) -> str:
        """Writes a program's file in the other format beside it; that file's name."""
        return utils.program_type_trans(prog_dir, prog_fn, is_text)

    def parse_program_proto(self, prog_path: str, is_text: bool, output_dir: str) -> None:
        """Tells a file's variables and operators in vars_all.log, vars_persistable.log, ops.log."""
        utils.parse_program(utils.load_program(prog_path, is_text), output_dir)

    def check_two_programs(self, config: Any) -> bool:
        """Whether a pruned program fits the model of training.

        config: has train_prog_path, is_text_train_program, pruned_prog_path,
        is_text_pruned_program, draw, and draw_out_name for what is drawn beside the latter.
        """
        trained = utils.load_program(config.train_prog_path, config.is_text_train_program)
        pruned = utils.load_program(config.pruned_prog_path, config.is_text_pruned_program)
        if config.draw:
            folder = str(Path(config.pruned_prog_path).parent)
            self.draw_from_program(pruned, folder, config.draw_out_name)
        return utils.check_pruned_program_vars(trained, pruned)

    def check_vars_and_dump(self, config: Any) -> NoReturn:
        """EnforceNotMet: `fluid.io.load_inference_model` tells what a saved model lacks."""
        raise EnforceNotMet(
            f"the model in {config.dump_model_dir} isn't tried by check_vars_and_dump: load it by "
            "fluid.io.load_inference_model, which tells what it lacks, and run it on a batch"
        )

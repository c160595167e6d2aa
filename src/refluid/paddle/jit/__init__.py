"""`paddle.jit`: functions of networks that run at once as programs, and those programs in files."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.fluid.dygraph.dygraph_to_static.program_translator: ProgramTranslator
    refluid.fluid.dygraph.jit: TracedLayer
    refluid.paddle.jit.saving: TranslatedLayer load save
    refluid.paddle.jit.static_functions: enable_to_static ignore_module not_to_static
    refluid.paddle.jit.static_functions: set_code_level set_verbosity to_static
    """,
)

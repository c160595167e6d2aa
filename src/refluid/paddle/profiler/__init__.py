"""`paddle.profiler`: where the time of steps goes, over cycles of steps."""

from refluid.paddle.naming import name_table

name_table(
    __name__,
    """
    refluid.paddle.profiler.states: ProfilerState ProfilerTarget SortedKeys SummaryView
    refluid.paddle.profiler.states: TracerEventType make_scheduler
    refluid.paddle.profiler.profiler: Profiler RecordEvent
    refluid.paddle.profiler.results: export_chrome_tracing export_protobuf load_profiler_result
    """,
)

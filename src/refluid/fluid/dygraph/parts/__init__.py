"""The layers of `fluid.dygraph.nn`, one file per family."""

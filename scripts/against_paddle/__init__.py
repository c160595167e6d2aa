"""Small programs changed at random, run by refluid and by paddle 2.6.2: where do they differ?

    python -m benchmarks.suite.peers paddle2
    python -m scripts.against_paddle shared/golden/ops --changes 8 --seed 3

The recordings say what Fluid 1.8 did in some cases of each operator. Here attributes, shapes,
sequences and element types of those are changed, and paddle 2.6.2, which still has most of Fluid's
operators, says what should come out. Where it is known to differ from 1.8 stands in `known`.

    python -m scripts.against_paddle --networks 1000 --seed 2

compares whole random networks that are trained for some steps (`networks`).
"""

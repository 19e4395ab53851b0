"""Searches for circuits, one file an algorithm, all with one signature.

    search(evaluator, units, budget, generator) -> Rows

A search sets out from `units.base` and gives back a program with fewer rows in use. `evaluator` has the model and the
sequences, `units` the rows and the hypotheses about them, `budget` the loss that may be spent and how much work is
done, `generator` the order in which things are tried; without one, the least costly goes first.
"""

"""Algorithms that search for circuits, all with one signature.

    search(evaluator, units, config, generator) -> Interventions

A search starts from `units.base` and returns interventions with fewer active rows. `evaluator` has the model and the
sequences, `units` the rows and hypotheses about them, `config` says how much loss may be spent and how much work is
done, `generator` perturbs the order in which things are tried; without one, the least costly goes first.
"""

"""Strategies that adapt TorchJD, and what works on rows of the Jacobian.

`family` lists TorchJD's; `descent` and `scalarized` are the two rules they follow. `averages` and `halves` are for
rules of our own.
"""

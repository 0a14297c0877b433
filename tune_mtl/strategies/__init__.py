"""HOW one mini-batch becomes updates: one file per rule. `registry` and `optimizers` load no torch."""

"""HOW one mini-batch becomes updates. `methods` holds one file per strategy, `jacobian` those that adapt TorchJD.

`registry`, `optimizers` and `schedules` say what there is and load no torch.
"""

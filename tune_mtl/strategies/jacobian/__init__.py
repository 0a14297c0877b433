"""The strategies that adapt TorchJD: `family` lists them, `descent` and `scalarized` are the two rules they follow."""

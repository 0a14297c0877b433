"""Ray Tune and Optuna: who is tried, who is stopped, what survives a kill. Nothing else knows them."""

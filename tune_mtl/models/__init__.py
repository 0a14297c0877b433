"""Networks, as plain modules: no data, no training."""

"""MLflow: what is recorded under which name, and how it gets there. Written from the driver alone."""

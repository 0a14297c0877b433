"""The loop: epochs, evaluation, path length, exact checkpoints. Knows neither Ray nor MLflow."""

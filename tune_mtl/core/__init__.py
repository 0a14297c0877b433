"""The vocabulary: tasks, models, data, objectives, problems, seeds. Knows nothing of training."""

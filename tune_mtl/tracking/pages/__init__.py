"""What a search shows in MLflow: prepared pages, their addresses, and descriptions in words."""

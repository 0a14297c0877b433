"""The tests and comparisons of a report."""

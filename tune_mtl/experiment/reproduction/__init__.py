"""The paper's whole comparison: which searches it takes, how they go on where they were stopped, and its page."""

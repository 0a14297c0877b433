"""What must be true on every node before a long search: the doctor and its checks."""

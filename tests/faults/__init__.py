"""Searches in real processes that are killed, starved and cut off; what must hold of them afterwards."""

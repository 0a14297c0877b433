"""A search as a whole: planned, run, resumed, extended, confirmed, removed."""

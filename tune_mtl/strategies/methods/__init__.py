"""The strategies that are written here: each file holds one, its record, its options and its rule."""

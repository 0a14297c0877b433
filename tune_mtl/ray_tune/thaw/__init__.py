"""Trials that are paused and thawed: who gets the next epochs. Nothing here knows Ray."""

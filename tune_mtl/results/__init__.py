"""What searches have recorded, read back from the tracking store. Knows neither Ray nor torch."""

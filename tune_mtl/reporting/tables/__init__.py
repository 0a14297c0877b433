"""The tables of a report, and how numbers are written."""

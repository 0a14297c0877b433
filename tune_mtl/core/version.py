"""The version of this package, which the records of a search name."""

VERSION = "0.3.0"

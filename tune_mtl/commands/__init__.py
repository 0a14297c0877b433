"""The commands of the command line: each parses, calls the API and prints; none decides anything."""

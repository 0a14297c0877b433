"""The parts of a search: who is tried next, who is stopped, what is shown. `tune_mtl.search` puts them together."""

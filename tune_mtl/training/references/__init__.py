"""Reference losses: what the best constant prediction of a task scores, found and kept where none was given."""

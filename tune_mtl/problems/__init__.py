"""WHAT is learned: tasks, data, model. `registry` lists the built-in problems without loading torch."""

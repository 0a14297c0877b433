"""From what was asked for to what will run: settings, spaces, turns, cost."""

"""What belongs to the process that runs: its home folder, how it is stopped, what it must not show."""

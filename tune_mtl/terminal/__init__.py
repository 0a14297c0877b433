"""What people see while and after something runs, on a terminal or in a log. Decides nothing."""

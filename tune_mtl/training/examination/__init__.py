"""What is wrong with a problem, found on one batch before anything trains.

It changes no number of any trial: networks are made for it alone, random states are put back.
"""

"""One thread per test process: they run side by side, and more threads than cores wait for each other.

Trials set their own number of threads. The variables must be there before torch is imported, and child processes
inherit them.
"""

import os

os.environ.setdefault("TUNE_MTL_EXPORT", "0")  # a search's winner is exported where a test is about that

for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

"""How long ``best`` takes among many tracked trials, in each kind of store; with ``recompute`` beside it.

Stores are filled by SQL with finished trials as a search records them. On sqlite; on PostgreSQL, where it is installed,
directly and through an ``mlflow server``. Medians of three calls of a client that is warm; ``recompute`` once.

    PYTHONPATH=. python benchmarks/best_of_many.py [--trials 100,1000,10000]
"""

import argparse
import logging
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

CALLS = 3
PASSWORD = "benchmark"


def seconds(name: str, uri: str, *, recompute: bool) -> float:
    import tune_mtl

    started = time.perf_counter()
    tune_mtl.best(name, tracking_uri=uri, recompute=recompute)
    return time.perf_counter() - started


def measure(name: str, uri: str) -> tuple[float, float]:
    """Seconds of ``best`` as it is, and looking at all trials; both must say the same."""
    import tune_mtl

    kept = tune_mtl.best(name, tracking_uri=uri)
    scanned = tune_mtl.best(name, tracking_uri=uri, recompute=True)
    if kept != scanned:
        raise SystemExit(f"{name}: the search kept {kept}, its trials say {scanned}")
    quick = statistics.median(seconds(name, uri, recompute=False) for _ in range(CALLS))
    return quick, seconds(name, uri, recompute=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", default="100,1000,10000")
    sizes = [int(size) for size in parser.parse_args().trials.split(",")]
    logging.disable(logging.WARNING)
    from tests.tracking.many import fill
    from tests.tracking.postgres import postgresql, programs
    from tests.tracking.server import mlflow_server

    rows = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["TUNE_MTL_HOME"] = str(home)
        stores = {"sqlite": f"sqlite:///{home / 'mlflow.db'}"}
        if programs() is not None:
            stores["PostgreSQL"] = stack.enter_context(postgresql(PASSWORD))
        for store, uri in stores.items():
            for size in sizes:
                fill(uri, f"of-{size}", size)
                rows.append((store, size, *measure(f"of-{size}", uri)))
        if "PostgreSQL" in stores:
            server = mlflow_server(stores["PostgreSQL"], home / "artifacts", home / "server.log")
            address = stack.enter_context(server)
            rows += [
                ("mlflow server on PostgreSQL", size, *measure(f"of-{size}", f"http://{address}")) for size in sizes
            ]
    print("| store | trials | `best` | `best --recompute` |")
    print("|---|---:|---:|---:|")
    for store, size, quick, scanned in rows:
        print(f"| {store} | {size:,} | {1e3 * quick:.0f} ms | {scanned:.2f} s |")


if __name__ == "__main__":
    main()

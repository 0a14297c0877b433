"""How many epochs ASHA + Optuna need to come within 2 % of the full grid's best, as a share of the grid's epochs.

For each seed: the whole `paper` grid of `multidigits` (learning rates x strategies x group counts, every trial to the
end), then the default guided search over the `wide` space with as many trials; both judged by `val/relative_loss`.

    python benchmarks/search_efficiency.py [--seeds 3] [--epochs 12]
"""

import argparse
import json
import logging
import os
import tempfile
from pathlib import Path

METRIC = "val/relative_loss"


def progress(folder: Path) -> list[float]:
    """The best value so far after each epoch that any trial trained, in the order they happened."""
    results = sorted(
        (record["timestamp"], record.get(METRIC, float("inf")))
        for path in folder.glob("trial_*/result.json")
        for record in map(json.loads, path.read_text().splitlines())
    )
    best, curve = float("inf"), []
    for _, value in results:
        best = min(best, value)
        curve.append(best)
    return curve


def main() -> None:
    import tune_mtl

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--samples", type=int, default=45, help="trials of the guided search")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    lines = []
    with tempfile.TemporaryDirectory() as home:
        os.environ["TUNE_MTL_HOME"] = home
        for seed in range(arguments.seeds):
            common = {"max_epochs": arguments.epochs, "seed": seed, "replicates": 1}
            grid = tune_mtl.search(
                "multidigits",
                name=f"grid-{seed}",
                space="paper",
                strategies=["sus", "ius", "io"],
                seeds=[seed],
                max_epochs=arguments.epochs,
            )
            guided = tune_mtl.search("multidigits", name=f"guided-{seed}", samples=arguments.samples, **common)
            full, curve = progress(grid.folder), progress(guided.folder)
            goal = 1.02 * full[-1]
            needed = next((epoch for epoch, value in enumerate(curve, 1) if value <= goal), None)
            share = f"{needed / len(full):.0%}" if needed else f"not within {len(curve) / len(full):.0%}"
            cells = (seed, f"{full[-1]:.4f}", len(full), f"{curve[-1]:.4f}", len(curve), needed or "-", share)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    print("\n| seed | grid's best | grid's epochs | guided best | guided epochs | epochs to within 2 % | share |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

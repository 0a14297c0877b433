"""The peak of memory of a step, above what was held before: plain, in parts, and with the trunk computed again.

One step of the CelebA net at half width with 8 tasks, on 64 images of 48x48; each line from a process of its own.

    python benchmarks/step_memory.py [--strategies sus,jd_upgrad]
"""

import argparse
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

from tune_mtl import Batch, Task, make_strategy
from tune_mtl.models.celeba_net import celeba_net


def memory(field: str) -> int:
    """KiB, from the kernel."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def peak(strategy: str, parts: int, checkpoint_trunk: bool) -> float:
    """MiB above what was held before the step."""
    torch.set_num_threads(1)
    names = [f"attribute-{index}" for index in range(8)]
    tasks = [Task(name, F.binary_cross_entropy_with_logits) for name in names]
    made = make_strategy(
        strategy, celeba_net(names, 32), tasks, lr=1e-3, optimizer="sgd", checkpoint_trunk=checkpoint_trunk
    )
    batch = Batch(torch.rand(64, 3, 48, 48), {name: (torch.rand(64) > 0.5).float() for name in names})
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    made.step(*batch, parts=parts)
    return (memory("VmHWM") - before) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", default="sus,jd_upgrad", help="comma-separated")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        strategy, parts, again = arguments.one
        print(f"{peak(strategy, int(parts), again == 'True'):.0f}")
        return
    print("| strategy | plain | checkpoint_trunk | 4 parts | both |\n|---|---|---|---|---|")
    for strategy in arguments.strategies.split(","):
        found = [
            subprocess.run(
                [sys.executable, __file__, "--one", strategy, str(parts), str(again)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for parts, again in ((1, False), (1, True), (4, False), (4, True))
        ]
        print(f"| {strategy} | {' | '.join(f'{one} MiB' for one in found)} |", flush=True)


if __name__ == "__main__":
    main()

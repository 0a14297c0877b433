"""Help texts that several commands share."""

from tune_mtl.strategies.optimizers import optimizers
from tune_mtl.strategies.registry import registry

STRATEGIES = ", ".join(name for name in registry if not name.startswith("jd_")) + ", jd_... (see tune-mtl strategies)"
OPTIMIZERS = ", ".join(optimizers) + " (see tune-mtl optimizers), or package.module:Class"
SCHEDULES = "constant, cosine, warmup_cosine, step (see tune-mtl schedules), or package.module:function"
"""Written out, since their records load pydantic; a test holds it against them."""
DATA = "The folder of prepared sets. Default: TUNE_MTL_DATA, or ./data."

"""Help texts that several commands share."""

from tune_mtl.strategies.registry import registry

STRATEGIES = ", ".join(name for name in registry if not name.startswith("jd_")) + ", jd_... (see tune-mtl strategies)"
DATA = "The folder of prepared sets. Default: TUNE_MTL_DATA, or ./data."

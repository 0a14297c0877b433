"""Whether batch normalisation can work with the smallest batches of a trial."""

import copy
from collections.abc import Callable, Mapping

import torch
from torch import nn

from tune_mtl.core.data import Batch
from tune_mtl.core.errors import UserError
from tune_mtl.core.seeds import isolated
from tune_mtl.core.torch_compat import BatchNorm


def check_single_samples(
    model: nn.Module, sizes: Mapping[str, tuple[str, bool]], one_sample: Callable[[], Batch]
) -> None:
    """Refuse batches of one sample where a network normalises over the samples of a batch: one has no variance.

    Args:
        model: The network; it is left as it is.
        sizes: Of the batches of one sample, how the setting reads and the way out; and whether the network trains then.
        one_sample: Gives such a batch.

    Raises:
        UserError: naming the setting and the way out.
    """
    if not sizes or not any(isinstance(part, BatchNorm) for part in model.modules()):
        return
    with isolated(), torch.no_grad():
        for setting, (way_out, trains) in sizes.items():
            try:
                copy.deepcopy(model).train(trains)(one_sample().inputs)
            except ValueError as error:
                if "more than 1 value per channel" in str(error):
                    raise UserError(
                        f"{setting}, but this network normalises over the samples of a batch, which takes at least 2."
                        f" {way_out}"
                    ) from None
                raise

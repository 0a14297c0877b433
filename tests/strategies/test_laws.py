"""Every registered strategy obeys the public laws: one is covered by being registered."""

from tune_mtl.strategies.registry import registry
from tune_mtl.testing import parametrize_with_laws


@parametrize_with_laws(*sorted(registry))
def test_what_is_built_in_obeys_the_laws(law):
    law()

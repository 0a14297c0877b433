from tests.toys import task_names
from tune_mtl.models.celeba_net import celeba_net
from tune_mtl.models.glyph_net import glyph_net
from tune_mtl.models.small_conv import small_conv_net
from tune_mtl.training.path import traced_weights


def count(parameters) -> int:
    return sum(parameter.numel() for parameter in parameters)


def test_celeba_net_has_the_papers_size():
    model = celeba_net(task_names(40))
    assert count(model.parameters()) == 5_198_184
    assert count(traced_weights(model.trunk)) == 5_171_904
    assert count(model.heads.parameters()) == 20_520


def test_small_net_shares_about_fifteen_thousand_weights():
    assert 12_000 < count(traced_weights(small_conv_net(10, 14, 10, 3).trunk)) < 16_000


def test_the_net_of_glyphs_shares_about_fifty_thousand_weights():
    model = glyph_net(task_names(40))
    assert 45_000 < count(traced_weights(model.trunk)) < 50_000
    assert count(model.heads.parameters()) == 40 * (64 + 1)

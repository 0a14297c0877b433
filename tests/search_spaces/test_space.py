from contextlib import suppress

import optuna
import pytest
from hypothesis import given
from hypothesis.strategies import integers

import search_spaces.celeba
import search_spaces.nyuv2
from search_spaces import Choice, IntRange, LogRange, Range, Space, find_space, space_names
from search_spaces.default import group_counts
from search_spaces.dimension import one_two_five
from search_spaces.texts import parse_numbers
from tests.toys import toy_problem
from tune_mtl import Problem, UserError, load_problem
from tune_mtl.core.seeds import isolated
from tune_mtl.strategies.registry import registry
from tune_mtl.training.config import resolve
from tune_mtl.training.trainer import Diverged, Trainer


def test_the_papers_protocol_is_a_grid_on_three_seeds():
    space = find_space(load_problem("multidigits"), "paper")
    rates = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
    assert space.seeds == (0, 1, 2)
    assert [config["lr"] for config in space.grid("sus")] == [lr for lr in rates for _ in range(3)]
    assert len(list(space.grid("io"))) == len(rates) * 2 * 3
    assert all("groups" not in config for config in space.grid("sus"))
    assert {config["groups"] for config in space.grid("ius")} == {2, 4}


def test_every_problem_has_spaces_from_the_registry_and_its_tasks():
    problem = toy_problem(5)
    assert space_names(problem) == ["paper", "wide"]
    space = find_space(problem, "wide").narrowed(strategies=tuple(registry))
    for name, info in registry.items():
        assert ("groups" in space.of(name)) == info.has_groups
        assert "lr" in space.of(name)
    assert space.of("io")["groups"] == Choice((2, 4, 5))
    with pytest.raises(UserError, match=r"unknown space 'wid'. Did you mean 'wide'\?"):
        find_space(problem, "wid")


def test_the_wide_space_searches_what_strategies_are_about():
    space = find_space(toy_problem(7), "wide").narrowed(strategies=tuple(registry))
    solvers = ("epsilon", "max_iters", "eps", "norm_eps", "max_norm", "optim_niter", "beta", "weight_decay", "layer")
    rates = {"beta_power", "gamma_power", "momentum", "steps"}
    wrapped = {"of", "cagrad_c", "fairgrad_alpha", "alignedmtl_scale_mode"}
    for name, info in registry.items():
        searched = {key.removeprefix(f"{name}_").partition(".")[0] for key in space.of(name)}
        left = info.options.model_fields.keys() - searched - set(solvers)
        assert left <= {"n_warmup_steps", "update_size", "accumulate", "at", "rescale", "rho"} | rates | wrapped, name
    assert space.of("jd_krum")["jd_krum_n_byzantine"] == IntRange(0, 2)
    assert space.of("jd_krum")["jd_krum_n_selected"] == IntRange(1, 7)
    assert space.of("jd_trimmedmean")["jd_trimmedmean_trim_number"] == IntRange(0, 3)


@pytest.mark.parametrize("name", sorted(registry))
@pytest.mark.parametrize("tasks", [3, 5])
def test_whatever_the_wide_space_suggests_can_be_trained(name, tasks):
    problem = toy_problem(tasks, conv=True)
    space = find_space(problem, "wide").narrowed(strategies=(name,))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(6):
        config = resolve(problem, {**space.suggest(study.ask(), name), "epochs": 1})
        with isolated():
            trainer = Trainer(problem, config)
            with suppress(Diverged):
                trainer.run_period()
            trainer.close()
        assert trainer.updates > 0


def test_the_papers_spaces_have_the_papers_options():
    attributes = [f"a{index}" for index in range(40)]
    celeba, nyuv2 = (module.spaces(attributes)["paper"] for module in (search_spaces.celeba, search_spaces.nyuv2))
    assert {config["gradnorm_alpha"] for config in celeba.grid("gradnorm")} == {0.2}
    assert {(config["mr_updates_end"], config["mr_accumulate"]) for config in celeba.grid("mr")} == {(3000, True)}
    assert {config["gradnorm_alpha"] for config in nyuv2.grid("gradnorm")} == {1.5}
    assert {config["mr_updates_end"] for config in nyuv2.grid("mr")} == {10_000}
    assert {config["groups"] for config in celeba.grid("io")} == {2, 4, 8, 20, 40}


def test_glyphs_has_the_papers_groups_on_its_grid_and_few_by_default():
    problem = load_problem("glyphs")
    paper, wide = (find_space(problem, name) for name in ("paper", "wide"))
    for strategy in ("ius", "io"):
        assert {config["groups"] for config in paper.grid(strategy)} == {2, 4, 8, 20, 40}
        assert wide.of(strategy)["groups"] == Choice((2, 4, 8))
    assert paper.seeds == (0, 1, 2)
    assert paper.strategies == find_space(Problem("celeba", problem.tasks), "paper").strategies
    assert {config["gradnorm_alpha"] for config in paper.grid("gradnorm")} == {0.2}


def test_the_size_of_a_grid_is_known_without_it():
    space = find_space(toy_problem(40), "paper").narrowed(strategies=("io", "scalar"))
    assert space.grid_size("io") == len(list(space.grid("io")))
    assert space.grid_size("scalar") > 10**19


def test_a_problems_own_space_wins():
    own = Space(name="mine", strategies=("sus",), dimensions={"lr": Choice((0.1,))})
    assert find_space(toy_problem(spaces={"mine": own}), "mine") is own


@given(tasks=integers(1, 60))
def test_group_counts_end_with_the_number_of_tasks(tasks):
    counts = group_counts(tasks)
    assert counts[-1] == tasks
    assert list(counts) == sorted(set(counts))
    assert all(1 <= count <= tasks for count in counts)


def test_suggestions_stay_inside_and_are_conditional():
    space = find_space(toy_problem(4), "wide").narrowed(strategies=("sus", "io", "scalar"))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(30):
        for strategy in space.strategies:
            config = space.suggest(study.ask(), strategy)
            assert 1e-5 <= config["lr"] <= 1e-1
            assert ("groups" in config) == (strategy == "io")
            assert set(config.get("scalar_weights", {})) == (
                {"t0", "t1", "t2", "t3"} if strategy == "scalar" else set()
            )
            assert config["seed"] == 0


def test_narrowing():
    space = find_space(load_problem("multidigits"), "wide")
    narrowed = space.narrowed(
        strategies=("io", "sus"),
        lr=LogRange(1e-3, 1e-2),
        groups=Choice((4,)),
        fixed={"batch_size": 50, "adam_eps": 1e-6},
        seeds=(7,),
    )
    configs = list(narrowed.grid("io"))
    assert [config["lr"] for config in configs] == [1e-3, 2e-3, 5e-3, 1e-2]
    assert all((c["groups"], c["batch_size"], c["adam_eps"], c["seed"]) == (4, 50, 1e-6, 7) for c in configs)
    assert all("groups" not in config for config in narrowed.grid("sus"))
    with pytest.raises(UserError, match="none of sus has groups"):
        space.narrowed(strategies=("sus",), groups=Choice((2,)))
    with pytest.raises(UserError, match="unknown strategy"):
        space.narrowed(strategies=("sux",))
    with pytest.raises(UserError, match="use --seed"):
        space.narrowed(fixed={"seed": 3})


def test_numbers_on_the_command_line():
    assert parse_numbers("1e-4:1e-2", log=True) == LogRange(1e-4, 1e-2)
    assert parse_numbers("1e-4,1e-3", log=True) == Choice((1e-4, 1e-3))
    assert parse_numbers("2,4", log=False) == Choice((2, 4))
    assert parse_numbers("1:4", log=False) == IntRange(1, 4)
    for bad in ("fast", "1:2:3", "1e-2:1e-4", "0:1", ""):
        with pytest.raises(UserError):
            parse_numbers(bad, log=True)
    with pytest.raises(UserError):
        Range(1.0, float("inf"))


def test_one_two_five():
    assert one_two_five(5e-4, 2e-2) == (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
    assert one_two_five(3e-3, 4e-3) == (3e-3, 4e-3)

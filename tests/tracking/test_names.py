"""The names that stores hold already: whoever changes one can no longer read what was recorded under it."""

from tune_mtl.tracking import names


def test_the_tags_of_runs_have_the_names_that_recorded_searches_have():
    written = {
        value
        for name, value in vars(names).items()
        if name.isupper() and isinstance(value, str) and value.startswith("tune_mtl.")
    }
    assert written == {
        f"tune_mtl.{name}"
        for name in (
            "best_run", "common_lr", "config", "confirmation", "continues", "factorial", "kind", "objective", "outcome",
            "problem", "ranked_by", "reason", "replicate", "role", "search", "settings", "trial_id", "winner",
            "winners",
        )
    }  # fmt: skip
    assert names.experiment_name("multidigits") == "tune-mtl/multidigits"

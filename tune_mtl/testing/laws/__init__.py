"""The laws themselves, by what they are about."""

from tune_mtl.testing.law import Law
from tune_mtl.testing.laws import (
    basics,
    costs,
    groups,
    labels,
    memory,
    randomness,
    settings,
    state,
    surroundings,
    tasks,
)

LAWS: dict[str, Law] = {
    law.name: law
    for law in (
        basics.takes_steps,
        basics.trains_every_head,
        basics.says_what_it_saw,
        basics.leaves_data_as_they_are,
        basics.takes_nested_data,
        basics.takes_single_precision,
        basics.takes_mini_batches_of_any_size,
        basics.survives_losses_that_are_not_finite,
        randomness.starts_where_all_start,
        randomness.draws_from_its_own_generator,
        surroundings.names_and_their_order_do_not_matter,
        surroundings.two_do_not_disturb_each_other,
        surroundings.predicting_changes_nothing,
        surroundings.leaves_settings_as_they_are,
        state.resumes_exactly,
        state.forgets_when_loaded,
        tasks.one_task_is_plain_training,
        tasks.a_weight_is_a_factor,
        tasks.a_weight_counts,
        labels.rows_without_labels_do_not_count,
        labels.all_labels_are_no_masks,
        labels.a_task_without_labels_stands_still,
        labels.no_labels_at_all_change_nothing,
        settings.follows_the_learning_rate,
        settings.follows_the_optimizer,
        settings.updates_are_clipped,
        groups.groups_change_something,
        groups.a_group_steps_its_own_heads,
        costs.updates_are_as_declared,
        costs.every_update_is_on_the_path,
        costs.passes_are_as_declared,
        costs.states_are_as_declared,
        costs.waits_for_no_device,
        memory.memory_does_not_grow,
        memory.keeps_no_graph,
    )
}
"""All laws by name, in the order in which they are tried and shown."""

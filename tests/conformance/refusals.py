"""What a dialect's wire can't pass of the suite: rows of the dialect's page, and patterns of the names of tests.

A row says why. A pattern is the name of a test, with or without its parameters.
"""

from __future__ import annotations

from .refusals_of_qless import QLESS, Refusals

__all__ = ["BEDROCK", "GEARMONKEY", "HWORKER", "QLESS", "WORKKIT"]

BEDROCK: Refusals = {
    "ids of your own": (
        "test_put_of_an_id_that_is_there_is_a_repeat_and_changes_nothing",
        "test_put_of_an_id_that_was_taken_is_a_repeat_too",
        "test_an_id_twice_in_a_batch_is_one_job",
    ),
    "options of a job": (
        "test_a_new_job_is_ready_due_now_and_uncharged",
        "test_bodies_and_options_are_opaque_bytes",
        "test_a_lease_tells_what_is_needed_to_run_the_job",
        "test_find_answers_with_whole_snapshots",
        r"test_find_by_state_queue_task_and_group\[(wanted0-a|wanted10-b|"
        r"wanted12-d|wanted2-c|wanted3-d|wanted4-e|wanted6-fa|wanted9-ecba)\]",
        "test_counts_are_per_queue_by_name_without_zeros",
    ),
    "owner": (
        "test_names_may_be_any_text",
        "test_a_taken_job_runs_at_its_worker_since_the_take",
    ),
    "tokens": (
        "test_each_hand_out_adds_one_to_the_token",
        "test_an_exchange_settles_before_it_takes",
    ),
    "results and errors": (
        "test_again_keeps_error_and_group_when_none_is_given",
        "test_failed_stores_error_and_group",
        "test_broken_fails_in_the_group_broken",
        "test_crashed_keeps_the_error_when_none_is_given",
        "test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it",
    ),
    "jobs that are done": (
        "test_a_batch_of_outcomes_is_answered_in_order",
        r"test_a_second_settle_with_the_same_token_is_already_recorded\[0\]",
        "test_stale_outcomes_do_not_keep_the_others_from_being_settled",
    ),
    "crashes": (
        "test_crashed_is_ready_with_its_due_time_unchanged_and_one_crash_more",
        "test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum",
        "test_an_attempt_is_charged_only_when_the_outcome_says_so",
    ),
    "deferrals": (
        "test_deferred_since_is_the_first_deferral_and_told_by_the_lease",
        "test_moved_takes_task_and_body_along_if_given",
    ),
    "milliseconds": (
        "test_again_is_ready_at_once_without_a_delay",
        "test_moved_goes_to_another_queue_with_counters_afresh",
        "test_a_promoted_job_keeps_its_due_time_when_given_back",
        "test_a_job_once_promoted_stays_ready_when_the_wall_clock_is_set_back",
        "test_a_retried_job_stands_where_its_due_time_puts_it",
    ),
    "when a run ended": (
        "test_a_final_state_sets_finished",
        "test_began_and_ended_are_turned_into_the_stores_time",
    ),
    "cancelling": (
        "test_cancel_of_a_waiting_job_cancels_it_at_once",
        "test_cancel_of_a_failed_job_cancels_it",
        "test_cancel_of_a_cancelled_job_is_true_and_changes_nothing",
        "test_cancel_of_a_done_job_is_false_and_changes_nothing",
        "test_cancel_of_a_running_job_flags_it",
        "test_every_outcome_of_a_cancelling_job_but_done_makes_it_cancelled",
        "test_done_wins_over_cancelling",
        "test_a_cancelled_run_is_charged_and_keeps_its_error_and_data",
        "test_a_cancelling_job_is_cancelled_when_its_session_closes",
        "test_a_cancelling_job_is_cancelled_when_its_session_expires",
        r"test_delete_leaves_nothing_of_a_job_in_any_state\[(cancelled|done)\]",
        "test_delete_of_a_running_job_loses_it_to_its_session",
        "test_revive_puts_a_failed_or_cancelled_job_back_in_line_afresh",
        "test_revive_keeps_what_it_does_not_clear",
        "test_revive_clears_deferred_since_of_a_job_cancelled_while_put_off",
        "test_revive_stands_where_its_new_due_time_puts_it",
        r"test_revive_of_any_other_state_is_false_and_changes_nothing\[done\]",
        "test_revive_of_an_unknown_job_is_false",
        "test_the_crashes_of_a_revived_job_are_counted_afresh",
    ),
    "what is due": (
        "test_an_exchange_that_takes_nothing_promotes_nothing",
        "test_a_take_promotes_at_most_a_thousand",
        "test_next_due_is_the_earliest_scheduled_job_of_whatever_queue",
        "test_next_due_leaves_out_what_was_promoted_and_what_is_gone",
    ),
    "queues in turn": (
        "test_round_robin_takes_one_from_each_queue_in_turn_skipping_empty_ones",
        "test_round_robin_one_slot_at_a_time_is_the_same_when_the_caller_rotates_the_queues",
        "test_round_robin_starts_with_the_first_queue_given_each_time",
        "test_round_robin_stops_at_slots_and_spare",
    ),
}

GEARMONKEY: Refusals = {
    "moments": (
        "test_a_delayed_job_is_scheduled",
        "test_a_job_with_a_time_is_scheduled",
        "test_a_job_is_not_handed_out_before_it_is_due_and_is_when_it_is",
        "test_a_take_promotes_what_is_due_in_every_queue",
        "test_an_exchange_that_takes_nothing_promotes_nothing",
        "test_a_take_promotes_at_most_a_thousand",
        "test_next_due_is_the_earliest_scheduled_job_of_whatever_queue",
        "test_next_due_leaves_out_what_was_promoted_and_what_is_gone",
        "test_again_with_a_delay_is_scheduled",
        "test_again_at_a_time_is_scheduled_or_ready_if_it_has_come",
        "test_a_time_counts_more_than_a_delay",
        "test_a_promoted_job_keeps_its_due_time_when_given_back",
        "test_a_job_once_promoted_stays_ready_when_the_wall_clock_is_set_back",
        "test_within_a_priority_the_earlier_due_time_comes_first",
        "test_a_delayed_job_stands_where_its_due_time_puts_it",
    ),
    "move": (
        "test_moved_may_be_delayed",
        "test_priority_is_kept_across_retries_and_moves",
    ),
    "priorities": ("test_the_higher_priority_comes_first",),
    "places in line": (
        "test_released_and_crashed_jobs_keep_their_places",
        "test_of_jobs_due_at_the_same_time_the_earlier_put_comes_first_even_after_a_retry",
    ),
    "counts of workers": ("test_an_expired_session_does_not_count_as_a_worker",),
}

HWORKER: Refusals = {
    "ids of your own": (
        "test_put_of_an_id_that_is_there_is_a_repeat_and_changes_nothing",
        "test_put_of_an_id_that_was_taken_is_a_repeat_too",
        "test_an_id_twice_in_a_batch_is_one_job",
    ),
    "options of a job": (
        "test_a_new_job_is_ready_due_now_and_uncharged",
        "test_bodies_and_options_are_opaque_bytes",
        "test_a_lease_tells_what_is_needed_to_run_the_job",
        "test_delete_leaves_nothing_of_a_job_in_any_state",
        "test_find_answers_with_whole_snapshots",
        "test_find_by_state_queue_task_and_group",
        "test_pages_go_together_with_filters",
        "test_a_job_that_ran_again_does_not_become_newer",
        "test_counts_are_per_queue_by_name_without_zeros",
        "test_a_queue_that_has_no_jobs_left_is_not_counted",
    ),
    "results and errors": (
        "test_again_keeps_error_and_group_when_none_is_given",
        "test_failed_stores_error_and_group",
        "test_broken_fails_in_the_group_broken",
        "test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it",
    ),
    "jobs that are done": (
        "test_a_batch_of_outcomes_is_answered_in_order",
        r"test_a_second_settle_with_the_same_token_is_already_recorded\[0\]",
        "test_stale_outcomes_do_not_keep_the_others_from_being_settled",
        "test_cancel_of_a_done_job_is_false_and_changes_nothing",
        "test_every_outcome_of_a_cancelling_job_but_done_makes_it_cancelled",
        "test_done_wins_over_cancelling",
        "test_a_deleted_id_can_be_put_again",
        "test_revive_keeps_what_it_does_not_clear",
        r"test_revive_of_any_other_state_is_false_and_changes_nothing\[(done|scheduled)\]",
    ),
    "crashes": (
        "test_an_attempt_is_charged_only_when_the_outcome_says_so",
        "test_crashed_is_ready_with_its_due_time_unchanged_and_one_crash_more",
        "test_crashed_keeps_the_error_when_none_is_given",
        "test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum",
        "test_the_crashes_of_a_revived_job_are_counted_afresh",
    ),
    "attempts": (
        "test_attempts_add_up_and_are_told_by_the_lease",
        "test_the_same_outcome_twice_in_one_exchange_counts_once",
        "test_deferred_since_is_the_first_deferral_and_told_by_the_lease",
    ),
    "times": (
        "test_a_final_state_sets_finished",
        "test_began_and_ended_are_turned_into_the_stores_time",
        "test_released_is_ready_with_its_due_time_unchanged",
    ),
    "tokens": (
        "test_each_hand_out_adds_one_to_the_token",
        "test_an_exchange_settles_before_it_takes",
        "test_a_settle_with_a_token_passed_on_is_stale_and_changes_nothing",
        "test_a_settle_with_an_old_token_of_ones_own_is_stale",
    ),
    "owner": (
        "test_a_taken_job_runs_at_its_worker_since_the_take",
        "test_names_may_be_any_text",
    ),
    "cancelled jobs": (
        "test_cancel_of_a_waiting_job_cancels_it_at_once",
        "test_cancel_of_a_failed_job_cancels_it",
        "test_cancel_of_a_cancelled_job_is_true_and_changes_nothing",
        "test_cancel_of_a_running_job_flags_it",
        "test_a_cancelled_run_is_charged_and_keeps_its_error_and_data",
        "test_a_cancelling_job_is_cancelled_when_its_session_closes",
        "test_a_cancelling_job_is_cancelled_when_its_session_expires",
        "test_revive_puts_a_failed_or_cancelled_job_back_in_line_afresh",
        "test_revive_clears_deferred_since_of_a_job_cancelled_while_put_off",
        "test_revive_stands_where_its_new_due_time_puts_it",
        "test_revive_of_an_unknown_job_is_false",
    ),
    "places in line": (
        "test_released_and_crashed_jobs_keep_their_places",
        "test_of_jobs_due_at_the_same_time_the_earlier_put_comes_first_even_after_a_retry",
    ),
}

WORKKIT: Refusals = {
    "What has ended": (
        "test_(failed_stores|broken_fails|a_final_state|began_and_ended|a_batch_of_outcomes|stale_outcomes).*",
        r"test_a_second_settle_with_the_same_token_is_already_recorded\[[023]\]",
        "test_a_settle_of_a_deleted_job_does_not_hit_the_job_put_after_it.*",
        r"test_an_attempt_is_charged_only_when_the_outcome_says_so\[[0235]\]",
        "test_a_job_fails_as_crashed_when_its_crashes_reach_the_maximum.*",
        "test_(again_keeps_error|crashed_keeps_the_error|crashed_is_ready_with_its_due).*",
        "test_a_taken_job_runs_at_its_worker_since_the_take",
        "test_find_answers_with_whole_snapshots",
    ),
    "Queues": (
        "test_take_is_from_the_queues_named_only",
        "test_a_take_promotes_what_is_due_in_every_queue",
        "test_next_due_is_the_earliest_scheduled_job_of_whatever_queue",
        "test_moved_may_be_delayed",
        "test_find_by_state_queue_task_and_group",
        "test_pages_go_together_with_filters",
        "test_counts_are_per_queue_by_name_without_zeros",
        "test_a_queue_that_has_no_jobs_left_is_not_counted",
        "test_ordered_empties_the_first_queue_before_the_next",
        "test_ordered_one_slot_at_a_time_is_the_same",
        "test_round_robin_takes_one_from_each_queue_in_turn_skipping_empty_ones",
        "test_round_robin_one_slot_at_a_time_is_the_same_when_the_caller_rotates_the_queues",
        "test_round_robin_starts_with_the_first_queue_given_each_time",
        "test_round_robin_stops_at_slots_and_spare",
    ),
    "Unknown tasks": (
        "test_names_may_be_any_text.*",
        "test_deferred_since_is_the_first_deferral.*",
    ),
    "Options of a call": ("test_(a_new_job_is_ready|bodies_and_options|a_lease_tells_what_is_needed).*",),
    "The same job twice": ("test_(put_of_an_id_that|an_id_twice_in_a_batch).*",),
    "Milliseconds": (
        "test_again_is_ready_at_once_without_a_delay",
        "test_a_delayed_job_is_scheduled",
        "test_a_job_with_a_time_is_scheduled",
        r"test_a_job_whose_time_has_come_is_ready_with_that_time\[(1|100000)\]",
        "test_a_job_is_not_handed_out_before_it_is_due_and_is_when_it_is",
        "test_an_exchange_that_takes_nothing_promotes_nothing",
        "test_a_take_promotes_at_most_a_thousand",
        "test_next_due_leaves_out_what_was_promoted_and_what_is_gone",
        "test_again_with_a_delay_is_scheduled",
        "test_again_at_a_time_is_scheduled_or_ready_if_it_has_come",
        "test_a_time_counts_more_than_a_delay",
        "test_a_promoted_job_keeps_its_due_time_when_given_back",
        "test_a_job_once_promoted_stays_ready_when_the_wall_clock_is_set_back",
        "test_within_a_priority_the_earlier_due_time_comes_first",
        "test_a_delayed_job_stands_where_its_due_time_puts_it",
        "test_a_retried_job_stands_where_its_due_time_puts_it",
    ),
    "Tokens": ("test_(each_hand_out_adds_one|an_exchange_settles_before_it_takes).*",),
    "Order": (
        "test_find_answers_newest_put_first",
        "test_find_goes_page_by_page_and_the_last_has_no_cursor",
        "test_jobs_put_between_two_pages_do_not_shift_the_second",
        "test_a_job_that_ran_again_does_not_become_newer",
    ),
}

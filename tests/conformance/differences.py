"""Where the wires of other systems differ from the contract: traits that a dialect lacks, and single tests.

Each has the row of the dialect's page with the rule of the wire (docs/dialects).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from headrace.errors import StillNeeded, Unsupported

from .traits import Difference, Trait

LACKS: dict[str, Mapping[Trait, Difference]] = {
    "bedrock": {
        Trait.IDS: Difference("ids of your own"),
        Trait.OPTIONS: Difference("options of a job", refused="retries"),
        Trait.OWNER: Difference("owner"),
        Trait.TOKENS: Difference("tokens"),
        Trait.ERRORS: Difference("results and errors"),
        Trait.DONE: Difference("jobs that are done"),
        Trait.CRASHES: Difference("crashes"),
        Trait.DEFERRALS: Difference("deferrals"),
        Trait.RUN_TIMES: Difference("when a run ended"),
        Trait.CANCELLED: Difference("cancelling"),
        Trait.PROMOTION: Difference("what is due"),
        Trait.ROUND_ROBIN: Difference("queues in turn"),
    },
    "gearmonkey": {
        Trait.MOMENTS: Difference("moments"),
        Trait.PROMOTION: Difference("what is due"),
        Trait.PLACES: Difference("places in line"),
    },
    "hworker": {
        Trait.IDS: Difference("ids of your own"),
        Trait.OPTIONS: Difference("options of a job", refused="retries"),
        Trait.OWNER: Difference("owner"),
        Trait.TOKENS: Difference("tokens"),
        Trait.ERRORS: Difference("results and errors"),
        Trait.DONE: Difference("jobs that are done"),
        Trait.ATTEMPTS: Difference("attempts"),
        Trait.CHARGES: Difference("attempts"),
        Trait.CRASHES: Difference("crashes"),
        Trait.DEFERRALS: Difference("attempts"),
        Trait.RUN_TIMES: Difference("times"),
        Trait.CANCELLED: Difference("cancelled jobs"),
        Trait.PLACES: Difference("places in line"),
    },
    "qless": {
        Trait.OPTIONS: Difference("bytes", msgspec.DecodeError),
        Trait.OWNER: Difference("names of workers"),
        Trait.TOKENS: Difference("tokens"),
        Trait.ERRORS: Difference("errors"),
        Trait.ALREADY: Difference("a second settle"),
        Trait.CHARGES: Difference("attempts and crashes"),
        Trait.CRASHES: Difference("attempts and crashes"),
        Trait.RUN_TIMES: Difference("moments"),
        Trait.DUE: Difference("a place in line"),
        Trait.PROMOTION: Difference("due times"),
        Trait.PLACES: Difference("a place in line"),
        Trait.PUT_ORDER: Difference("a place in line"),
        Trait.CANCELLED: Difference("cancelled as a state"),
        Trait.NEWEST_FIRST: Difference("finding all jobs"),
        Trait.HISTORY: Difference("histories"),
        Trait.UPDATES: Difference("`job.update()`", refused="update"),
        Trait.DEPENDENCY_ENDS: Difference("ends of dependencies"),
        Trait.CHILDREN: Difference("`WaitFor`, `MoveTo(after=...)` (waiting for children, however they end)"),
        Trait.DELAY_AFTER: Difference("`run_after=` as a delay, with `after=`", refused="run_after"),
        Trait.PAUSED_BY: Difference("who paused a queue, and when"),
        Trait.SWEPT: Difference("settings"),
        Trait.DURATIONS: Difference("durations"),
    },
    "workkit": {
        Trait.IDS: Difference("The same job twice"),
        Trait.OPTIONS: Difference("`using(...)`", refused="retries"),
        Trait.QUEUES: Difference(
            "Queues", Unsupported, says=r"This store is the schedule '.*': it has no queue 'other'\. Open .*"
        ),
        Trait.OWNER: Difference("What has ended"),
        Trait.TOKENS: Difference("Tokens"),
        Trait.ERRORS: Difference("What has ended"),
        Trait.DONE: Difference("What has ended"),
        Trait.FAILURES: Difference("What has ended"),
        Trait.CRASHES: Difference("Attempts and crashes"),
        Trait.CANCELLED: Difference("What has ended"),
        Trait.DEFERRALS: Difference("Unknown tasks"),
        Trait.PROMOTION: Difference("What is due"),
        Trait.RUN_TIMES: Difference("What has ended"),
        Trait.MOMENTS: Difference("Milliseconds"),
        Trait.NEWEST_FIRST: Difference("Order"),
    },
}
"""The row of what a dialect lacks, and what the trait's witness does there."""

DIFFERS: dict[str, Mapping[str, Difference]] = {
    "bedrock": {
        "test_names_may_be_any_text[name3]": Difference(
            "names", Unsupported, says=r"'x{200}/x{200}' cannot be a Bedrock job's name: up to 255 bytes, .*"
        ),
        "test_names_may_be_any_text[a:b/c]": Difference("names"),
        "test_delete_of_a_running_job_loses_it_to_its_session": Difference("cancelling"),
        "test_an_attempt_is_charged_only_when_the_outcome_says_so[2]": Difference("crashes"),
        "test_an_attempt_is_charged_only_when_the_outcome_says_so[3]": Difference("crashes"),
        "test_a_promoted_job_keeps_its_due_time_when_given_back": Difference("milliseconds"),
    },
    "gearmonkey": {
        "test_the_higher_priority_comes_first": Difference("priorities"),
        "test_a_delayed_job_stands_where_its_due_time_puts_it": Difference("places in line"),
        "test_an_expired_session_does_not_count_as_a_worker": Difference("counts of workers", pytest.fail.Exception),
    },
    "hworker": {
        "test_released_is_ready_with_its_due_time_unchanged": Difference("times"),
        "test_a_settle_with_a_token_passed_on_is_stale_and_changes_nothing": Difference("owner"),
        "test_a_settle_with_an_old_token_of_ones_own_is_stale": Difference("owner"),
        "test_a_job_that_ran_again_does_not_become_newer": Difference("places in line"),
        "test_pages_go_together_with_filters": Difference("queues"),
        "test_a_queue_that_has_no_jobs_left_is_not_counted": Difference("queues"),
    },
    "qless": {
        "test_find_by_state_queue_task_and_group[wanted8-fd]": Difference("finding all jobs"),
        "test_every_way_out_makes_room[expire]": Difference("leases and limits"),
        "test_depend_refuses_what_is_too_deep_to_check": Difference("depth of dependencies", pytest.fail.Exception),
        "test_depend_refuses_more_than_a_job_may_come_after": Difference(
            "depth of dependencies", pytest.fail.Exception
        ),
        "test_many_dependents_are_released_in_bounded_steps": Difference("bounded steps"),
        "test_a_done_job_has_those_that_have_not_ended": Difference("ends of dependencies"),
        "test_nothing_is_set_until_somebody_sets_it": Difference("settings"),
        "test_a_parent_that_is_deleted_before_it_is_done": Difference(
            "cancelling or deleting a dependency",
            StillNeeded,
            says=r"Job b waits for job a, and would do so for ever if that were gone\. Cancel b first, .*",
        ),
    },
    "workkit": {
        "test_delete_of_a_running_job_loses_it_to_its_session": Difference("What has ended"),
        "test_a_job_whose_time_has_come_is_ready_with_that_time[1000]": Difference("Milliseconds"),
        "test_a_job_whose_time_has_come_is_ready_with_that_time[100000]": Difference("Milliseconds"),
        "test_a_delayed_job_stands_where_its_due_time_puts_it": Difference("Order"),
        "test_of_jobs_due_at_the_same_time_the_earlier_put_comes_first_even_after_a_retry": Difference("Order"),
    },
}
"""Tests, with or without their parameters, that fail on a dialect that has their traits."""

"""The twenty behaviours that this framework promises, and the tests of each.

Tests of `tests.faults` and `tests.contract` run against an API server behind a proxy that injects
the fault; with KUBEBUILDER_ASSETS it is a real one. The others use a virtual clock, because their
subject is time.
"""

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import pytest


class Behaviour(NamedTuple):
    """A promise, and the tests that show that it is kept.

    Args:
        promise: as a user would notice it.
        shown_by: `module: test test ...`, relative to `tests`; names without `test_`.
        reason_without_server: why no test uses an API server; empty if one does.
    """

    promise: str
    shown_by: str
    reason_without_server: str = ""


BEHAVIOURS: Mapping[int, Behaviour] = {
    1: Behaviour(
        "a watch that dies without a word is replaced in time, from its position, without a list",
        "faults.test_behaviours: a_watch_that_falls_silent_is_replaced_without_a_list",
    ),
    2: Behaviour(
        "410, as an event or as an answer, costs one list that tells once what has gone",
        "faults.test_behaviours: 410_is_answered_by_one_list_that_shows_what_was_deleted"
        " faults.test_compacted:"
        " a_watch_from_a_compacted_revision_fails_and_a_list_follows"
        " a_watch_behind_a_compaction_ends_and_no_change_is_missed"
        " faults.test_restored:"
        " controllers_at_work_go_on_in_the_history_that_was_restored",
    ),
    3: Behaviour(
        "a server that closes each watch at once is asked less and less, and listed",
        "faults.test_behaviours: a_server_that_closes_each_watch_at_once_gets_few_requests",
    ),
    4: Behaviour(
        "a streamed list without its end is given up for a list, and not tried again",
        "faults.test_behaviours:"
        " a_streamed_list_without_its_end_is_given_up_for_a_list_and_never_tried_again"
        " a_server_without_streamed_lists_is_asked_for_lists",
    ),
    5: Behaviour(
        "no object of a streamed list that was cut is a position to come back to",
        "faults.test_behaviours: a_streamed_list_cut_midway_is_no_position_to_come_back_to",
    ),
    6: Behaviour(
        "a list that expires between its parts is complete all the same, by one list in one piece",
        "faults.test_behaviours:"
        " a_list_that_expires_between_its_parts_is_asked_for_in_one_piece"
        " parts_after_the_first_carry_no_resource_version"
        " what_changes_between_the_parts_of_a_list_is_known_once_and_as_it_is_now"
        " faults.test_compacted:"
        " a_list_whose_continue_token_is_compacted_is_requested_in_one_piece",
    ),
    7: Behaviour(
        "an object recreated in a gap is told as such, and indexes hold the new one alone",
        "faults.test_behaviours: an_object_recreated_in_a_gap_is_an_update_with_another_uid",
    ),
    8: Behaviour(
        "a late handler sees each object once as initial, no gap and no disorder, and is in sync",
        "faults.test_sharing:"
        " a_late_handler_sees_each_object_once_as_initial_without_gap_or_disorder",
    ),
    9: Behaviour(
        "what one reconciler tries to change others see unchanged, and a mode finds who did it",
        "faults.test_sharing:"
        " a_reconciler_cannot_change_a_cached_object_for_other_readers"
        " the_detector_of_mutations_names_what_was_changed_in_place",
    ),
    10: Behaviour(
        "a key in work that is added a thousand times is worked on once more, never twice at once",
        "controller.test_workqueue:"
        " a_key_in_processing_is_not_taken_again_before_it_is_done"
        " controller.test_runner:"
        " as_many_keys_run_at_once_as_the_concurrency_allows_and_never_one_twice"
        " a_key_added_a_thousand_times_while_it_is_worked_on_is_worked_on_once_more"
        " controller.test_workqueue_machine:"
        " TestQueue",
        reason_without_server="a queue has no server",
    ),
    11: Behaviour(
        "failures wait 5, 10, 20 ... ms; success forgets them; a terminal error ends it",
        "controller.test_runner:"
        " failures_back_off_exponentially"
        " every_outcome_resets_the_failures"
        " a_terminal_error_is_not_retried_and_its_failures_are_kept",
        reason_without_server="pauses are a matter of time, which is virtual there",
    ),
    12: Behaviour(
        "live changes are quick beside a backlog, and the backlog is worked off in bounded time",
        "controller.test_fairness:"
        " initial_objects_are_reconciled_under_load_and_hardly_delay_live_changes"
        " initial_objects_do_not_starve_even_when_live_keys_exceed_the_capacity",
        reason_without_server="the order of a queue, in virtual time",
    ),
    13: Behaviour(
        "a controller reads its own writes while its cache lags; a lag without end has a name",
        "faults.test_managers:"
        " a_controller_reads_its_own_writes_while_its_cache_lags"
        " a_write_that_does_not_come_back_is_named_and_measured"
        " a_write_whose_answer_was_lost_is_not_made_twice",
    ),
    14: Behaviour(
        "what was deleted, finalizer or not, is not read again under lag, nor waited for",
        "faults.test_managers:"
        " a_deleted_object_does_not_reappear_while_the_cache_lags"
        " a_name_used_again_after_our_deletion_shows_the_new_object",
    ),
    15: Behaviour(
        "a leader that hangs stops before another begins; a frozen one does no harm",
        "controller.test_leases:"
        " a_leader_whose_requests_hang_stops_before_another_can_begin"
        " a_wall_clock_that_jumps_costs_no_leadership"
        " controller.test_signals:"
        " work_that_ignores_a_lost_lease_ends_with_the_process"
        " contract.test_frozen_replica:"
        " two_replicas_that_both_lead_never_allocate_an_address_twice_if_frozen_in_turn"
        " a_leader_frozen_beyond_its_lease_exits_when_it_resumes_and_no_ranges_overlap",
    ),
    16: Behaviour(
        "a stopped leader gives its lease back when its work has ended; a second signal ends all",
        "faults.test_handover:"
        " a_stopped_leader_gives_its_lease_to_the_next_when_its_work_has_ended"
        " controller.test_lease_release:"
        " a_released_lease_is_taken_within_two_retry_periods"
        " controller.test_signals:"
        " the_first_signal_lets_work_end"
        " the_second_signal_ends_the_process_at_once",
    ),
    17: Behaviour(
        "replaced tokens, authorities and certificates are used within a minute, nothing fails",
        "controller.test_credentials:"
        " replaced_tokens_and_certificates_are_used_within_a_minute"
        " controller.webhooks.test_server:"
        " files_replaced_by_a_symlink_as_kubelet_does_it_are_read"
        " a_new_certificate_is_used_for_new_connections_and_open_ones_stay",
        reason_without_server="servers of tests replace their credentials; no API server does",
    ),
    18: Behaviour(
        "a missing right or kind is in readyz, stops no other controller, and heals by itself",
        "faults.test_managers:"
        " a_missing_right_is_named_and_stops_no_other_controller"
        " a_missing_kind_is_named_and_stops_no_other_controller",
    ),
    19: Behaviour(
        "odd input ends no task, is dealt with by its kind, and reaches no handler",
        "faults.test_odd_input:"
        " a_watch_with_odd_input_loses_nothing"
        " a_list_with_odd_input_is_asked_for_again"
        " the_time_that_an_overloaded_server_asks_for_is_given"
        " a_cache_comes_to_equal_the_server_through_any_storm",
    ),
    20: Behaviour(
        "controllers and objects that come and go leave nothing; watches and requests share",
        "faults.test_leaks:"
        " controllers_that_come_and_go_leave_nothing_on_what_they_shared"
        " objects_that_come_and_go_leave_no_index_keys_and_nothing_else"
        " informers_and_clients_that_come_and_go_leave_no_connection"
        " hundreds_of_reconnects_leave_no_connection_no_task_and_no_event_unseen"
        " many_watches_and_many_requests_do_not_starve_each_other",
    ),
}


def test_twenty_behaviours_are_listed() -> None:
    assert list(BEHAVIOURS) == list(range(1, 21))


@pytest.mark.parametrize("number", BEHAVIOURS)
def test_each_behaviour_has_its_tests(number: int) -> None:
    tests: dict[str, object] = {}
    for word in BEHAVIOURS[number].shown_by.split():
        if word.endswith(":"):
            tests = vars(import_module(f"tests.{word[:-1]}"))
            continue
        test = tests.get(word) or tests.get(f"test_{word}")
        assert inspect.isfunction(test) or inspect.isclass(test), f"{number}: {word}"


@pytest.mark.parametrize("number", BEHAVIOURS)
def test_each_behaviour_is_tried_on_real_servers_or_says_why_not(number: int) -> None:
    behaviour = BEHAVIOURS[number]
    modules = [word for word in behaviour.shown_by.split() if word.endswith(":")]
    tried = [module for module in modules if module.startswith(("faults.", "contract."))]
    assert bool(tried) != bool(behaviour.reason_without_server)

#![doc = include_str!("../README.md")]

mod context;
mod counting;
mod fixture;
mod kinds;

pub mod acquire;
pub mod every_counter;
pub mod fair;
pub mod families;
pub mod fenced;
pub mod inspection;
pub mod latch;
pub mod names;
pub mod notices;
pub mod other_data;
pub mod peers;
pub mod permits;
pub mod races;
pub mod read_write;
pub mod release;
pub mod renewal;
pub mod restarts;
pub mod semaphore;
pub mod spin;
pub mod time;
pub mod together;
pub mod topology;

pub use context::{Context, LONG, SHORT, granted, held, is_about, is_too_late, of_kind};
pub use fixture::{
    Fair, FencedCounter, FencedGround, FencedHybrid, Fixture, OfKind, OnePermit, OtherDataGround, PeerGround,
    Read, RestartGround, Spin, Write, run,
};
pub use kinds::{Permitting, Queueing, Reading, Writing, check_groups};

/// Makes one `#[test]` of each behaviour of the named groups, for one [`Fixture`].
#[macro_export]
macro_rules! conformance {
    ($fixture:ty: $($group:ident),+ $(,)?) => {
        #[test]
        fn the_groups_are_those_of_the_kinds() {
            $crate::check_groups::<$fixture>(&[$(stringify!($group)),+]);
        }
        $($crate::conformance!(@$group $fixture);)+
    };
    // What is true of holds of every kind.
    (@every_hold $fixture:ty) => {
        $crate::conformance!(@tests $fixture, acquire:
            a_free_lock_is_granted,
            a_grant_lasts_for_its_ttl,
            the_longest_ttl_is_kept,
            acquiring_again_is_granted_and_counts_once,
            acquiring_again_lasts_for_its_ttl,
            acquiring_again_never_shortens,
            an_acquire_past_its_limit_is_not_executed,
            an_acquire_past_its_limit_does_not_lengthen,
            a_hold_that_ran_out_is_free,
        );
        $crate::conformance!(@tests $fixture, release:
            a_release_by_the_owner_frees,
            a_release_by_another_owner_changes_nothing,
            a_second_release_is_not_yours,
            releasing_a_free_lock_is_not_yours,
            releasing_what_ran_out_is_not_yours,
            a_late_release_spares_the_next_owner,
        );
        $crate::conformance!(@tests $fixture, renewal:
            a_renewal_lengthens,
            a_renewal_never_shortens,
            a_renewal_tells_what_was_left,
            a_renewal_never_creates,
            a_renewal_by_another_owner_changes_nothing,
            a_renewal_of_what_ran_out_is_not_yours,
            a_renewal_past_its_limit_is_not_executed,
            a_mixed_batch_answers_each_member_once,
            a_batch_may_mix_operations,
            a_renewal_alone_is_answered,
            a_member_twice_in_a_batch_is_answered_twice,
            a_thousand_members_are_each_answered,
            the_renewals_lane_renews_what_the_calls_lane_acquired,
            a_batch_for_an_unknown_node_is_not_executed,
        );
        $crate::conformance!(@tests $fixture, inspection:
            a_free_lock_shows_no_hold,
            a_held_lock_shows_its_owner_once,
            a_forced_release_ends_anybodys_hold,
            forcing_a_free_lock_is_false,
        );
        $crate::conformance!(@tests $fixture, races:
            many_locks_are_independent,
        );
        $crate::conformance!(@tests $fixture, families:
            a_kind_on_a_key_of_another_family_is_refused,
        );
    };
    // What is true of holds that are alone.
    (@alone $fixture:ty) => {
        $crate::conformance!(@tests $fixture, acquire:
            a_held_lock_is_refused_with_what_is_left,
            every_grant_has_a_higher_token,
        );
        $crate::conformance!(@tests $fixture, names:
            odd_names_are_names,
            the_longest_name_is_a_name,
            similar_names_are_different_locks,
        );
        $crate::conformance!(@tests $fixture, races:
            two_lanes_see_each_others_holds,
            of_many_tasks_exactly_one_is_granted,
            holders_follow_each_other_with_rising_tokens,
            calls_are_executed_in_their_order,
        );
        $crate::conformance!(@tests $fixture, together:
            many_acquires_are_each_answered,
            of_many_acquires_the_held_are_refused,
            acquiring_many_again_counts_once,
            of_two_acquires_of_a_lock_in_a_group_one_is_granted,
            acquires_past_their_limit_are_not_executed,
            many_releases_end_their_own_holds_only,
            a_group_may_have_acquires_and_releases,
        );
        $crate::conformance!(@tests $fixture, time:
            every_answer_carries_the_nodes_present_clock,
        );
    };
    (@every $fixture:ty) => {
        $crate::conformance!(@every_hold $fixture);
        $crate::conformance!(@alone $fixture);
        $crate::conformance!(@tests $fixture, renewal:
            an_empty_batch_is_answered_empty,
        );
        $crate::conformance!(@tests $fixture, time:
            server_time_moves_on,
            server_time_never_runs_back,
        );
        $crate::conformance!(@tests $fixture, topology:
            the_slots_of_our_keys_are_served,
            lanes_of_both_purposes_agree_on_the_nodes,
            the_capabilities_can_be_used,
        );
        $crate::conformance!(@tests $fixture, families:
            a_kind_that_is_lacking_is_refused_without_effect,
            locks_of_one_name_exclude_each_other,
            a_hold_of_another_kind_that_ran_out_is_free,
        );
    };
    (@fair $fixture:ty) => {
        mod fair {
            use super::*;
            $crate::conformance!(@every_hold $crate::Queueing<$fixture>);
            $crate::conformance!(@alone $crate::Queueing<$fixture>);
        }
        $crate::conformance!(@tests $fixture, fair:
            the_line_is_in_the_order_of_arrival,
            nobody_passes_the_head,
            an_acquire_never_queues,
            queueing_again_keeps_the_place,
            a_holder_that_queues_is_granted_again,
            a_release_leaves_the_line,
            a_beat_says_how_the_line_stands,
            a_batch_of_beats_answers_each_place,
            a_queue_past_its_limit_is_not_executed,
            the_head_is_told_its_turn,
            the_next_is_told_when_the_head_leaves,
            the_line_outlives_a_hold_that_ran_out,
            a_hold_of_another_kind_holds_up_the_line,
            a_forced_release_makes_way_for_the_head,
            a_silent_head_is_dropped,
            a_place_that_beats_is_kept,
            after_a_silence_of_all_nobody_is_dropped,
        );
    };
    (@read_write $fixture:ty) => {
        mod read {
            use super::*;
            $crate::conformance!(@every_hold $crate::Reading<$fixture>);
        }
        mod write {
            use super::*;
            $crate::conformance!(@every_hold $crate::Writing<$fixture>);
            $crate::conformance!(@alone $crate::Writing<$fixture>);
        }
        $crate::conformance!(@tests $fixture, read_write:
            readers_share_and_a_writer_is_alone,
            a_reader_is_refused_with_what_a_writer_has_left,
            each_read_hold_has_its_own_expiry,
            a_read_release_ends_one_hold_only,
            a_late_read_release_spares_the_writer,
            a_downgrade_lets_readers_in_and_no_writer,
            a_downgrade_can_be_repeated,
            a_downgrade_lasts_for_its_ttl_and_never_shortens,
            a_downgrade_never_creates,
            a_downgrade_by_another_owner_changes_nothing,
            a_downgrade_past_its_limit_is_not_executed,
            a_late_downgrade_after_the_release_is_not_yours,
            a_read_release_ends_a_hold_whose_downgrade_was_not_executed,
            an_owner_has_one_kind_of_hold_at_a_time,
            a_batch_may_mix_kinds,
            a_writer_has_a_higher_token_than_all_before,
            readers_and_writers_are_never_inside_together,
            a_forced_release_ends_all_read_holds,
        );
    };
    (@read_write_notices $fixture:ty) => {
        mod read_notices {
            use super::*;
            $crate::conformance!(@notices $crate::Reading<$fixture>);
        }
        mod write_notices {
            use super::*;
            $crate::conformance!(@notices $crate::Writing<$fixture>);
        }
        $crate::conformance!(@tests $fixture, read_write:
            a_read_release_gives_notice_if_it_was_the_last,
            a_downgrade_gives_notice,
            families_of_one_name_have_notices_of_their_own,
        );
    };
    (@read_write_other_data $fixture:ty) => {
        mod read_other_data {
            use super::*;
            $crate::conformance!(@other_data $crate::Reading<$fixture>);
        }
        mod write_other_data {
            use super::*;
            $crate::conformance!(@other_data $crate::Writing<$fixture>);
        }
    };
    (@permits $fixture:ty) => {
        mod permit {
            use super::*;
            $crate::conformance!(@every_hold $crate::Permitting<$fixture>);
        }
        $crate::conformance!(@tests $fixture, permits:
            a_transport_that_keeps_permits_says_so,
            without_a_total_there_are_no_permits,
            permits_are_granted_all_or_none,
            a_repeat_takes_no_more_permits,
            each_hold_of_permits_has_its_own_expiry,
            a_release_of_what_ran_out_gives_it_back_once,
            permits_that_expired_count_as_available,
            very_many_expired_permits_come_back_in_steps,
            a_total_may_grow_and_shrink_under_holds,
            never_more_permits_than_the_total_are_held,
            a_forced_release_gives_all_permits_back,
            a_batch_renews_permits_beside_locks,
        );
    };
    (@permit_notices $fixture:ty) => {
        mod permit_notices {
            use super::*;
            $crate::conformance!(@notices $crate::Permitting<$fixture>);
        }
        $crate::conformance!(@tests $fixture, permits:
            whatever_makes_permits_available_gives_notice,
        );
    };
    (@permit_other_data $fixture:ty) => {
        $crate::conformance!(@tests $fixture, permits:
            data_that_is_no_semaphore_is_refused_and_kept,
        );
    };
    (@notices $fixture:ty) => {
        $crate::conformance!(@tests $fixture, notices:
            a_watch_comes_into_force,
            a_release_gives_notice,
            a_forced_release_gives_notice,
            no_release_goes_unnoticed_in_force,
            every_watch_of_a_key_gets_notice,
            a_dropped_watch_hinders_no_other,
            a_release_counts_who_listens,
        );
        $crate::conformance!(@tests $fixture, together:
            many_releases_tell_those_who_watch,
        );
    };
    (@peers $fixture:ty) => {
        $crate::conformance!(@tests $fixture, peers:
            a_peers_hold_without_expiry_is_held_without_expiry,
            a_peers_hold_and_its_count_are_shown,
            a_peers_hold_can_be_neither_released_nor_renewed,
            a_peers_hold_can_be_forced,
        );
    };
    (@other_data $fixture:ty) => {
        $crate::conformance!(@tests $fixture, other_data:
            data_of_another_kind_is_refused_and_kept,
        );
        $crate::conformance!(@tests $fixture, together:
            one_key_with_other_data_harms_no_other,
        );
    };
    (@every_counter $fixture:ty) => {
        $crate::conformance!(@tests $fixture, every_counter:
            a_number_counts_once,
            a_number_below_the_last_is_too_late,
            an_operation_past_its_limit_is_not_executed,
            clients_have_numbers_of_their_own,
            a_counter_is_set_only_if_it_does_not_exist,
            a_read_changes_nothing,
            an_operation_is_forgotten_in_time,
            counters_have_names_of_their_own,
            a_counters_answer_carries_the_nodes_present_clock,
        );
    };
    (@semaphore $fixture:ty) => {
        $crate::conformance!(@tests $fixture, semaphore:
            a_transport_that_keeps_semaphores_says_so,
            a_take_serves_the_longest_prefix_that_fits,
            a_semaphore_that_does_not_exist_has_no_permits,
            a_give_makes_the_semaphore,
            permits_are_added_and_removed,
            a_drain_takes_everything,
            a_void_gives_back_what_was_taken,
            a_void_keeps_a_take_from_ever_being_done,
            permits_that_become_free_give_notice,
            the_sum_of_permits_is_conserved,
        );
    };
    (@latch $fixture:ty) => {
        $crate::conformance!(@tests $fixture, latch:
            a_transport_that_keeps_latches_says_so,
            a_latch_opens_exactly_at_zero,
            a_latch_counts_no_more_than_is_left,
            a_deleted_latch_is_open,
            a_latch_tells_its_changes_once,
            exactly_one_step_is_the_last,
        );
    };
    (@no_counters $fixture:ty) => {
        $crate::conformance!(@tests $fixture, every_counter:
            data_that_is_no_counter_is_refused_and_kept,
        );
    };
    (@restarts $fixture:ty) => {
        $crate::conformance!(@tests $fixture, restarts:
            a_restarted_node_has_a_new_clock,
            a_restart_leaves_a_gap_in_every_watch,
        );
    };
    (@fenced $fixture:ty) => {
        $crate::conformance!(@tests $fixture, fenced:
            a_repeat_has_the_token_of_its_grant,
            reserved_tokens_are_below_that_of_the_next_grant,
            a_token_is_what_its_mode_says,
            nothing_but_a_grant_moves_the_counter,
            tokens_rise_over_both_modes_and_a_peers_counter,
            a_repeat_without_its_counter_is_an_error,
            a_deleted_counter_is_made_up_for_by_the_time,
            holds_of_other_kinds_exclude_and_leave_the_counter,
        );
    };
    (@spin $fixture:ty) => {
        $crate::conformance!(@tests $fixture, spin:
            a_spin_release_gives_no_notice,
        );
    };
    (@tests $fixture:ty, $subject:ident: $($behaviour:ident,)+) => {
        $(
            #[test]
            fn $behaviour() {
                $crate::run::<$fixture>($crate::$subject::$behaviour);
            }
        )+
    };
}

//! Renewals of one node's leases, in the fewest commands that the server answers correctly.
//!
//! A proxy may send a command with several keys to the server of its first key, or refuse it with an error text
//! that proves nothing. So a negative result for a lease from such a command is checked before it counts: the
//! renewal is repeated alone, with its one key declared. Without a proxy such a result is rare, and costs one extra
//! command for each lost lease. If the second reply differs, the server gets smaller batches from then on.
//!
//! Read holds are a batch of their own, because each has two keys. While their slot is being moved, a command with both
//! is refused as long as one of them is at each node. Then each key is renewed by itself, and the hold is renewed if both
//! are.
//!
//! Holds of permits are batches of their own too. A hold may have thousands of permits, so their number limits a batch.

use std::{collections::BTreeMap, convert::Infallible, future::pending};

use futures_util::future::join_all;
use leasehold::{
    routing::{
        slot::Slot,
        topology::{ClockId, NodeId},
    },
    transport::{Call, Effect, ErrorKind, Outcome, TransportError},
};

use super::nodes::Nodes;
use crate::connection::{
    Batches, Connection, Part, answer_all, is_about_the_batch, is_passing, is_read, permits_of,
};

impl Nodes {
    /// Renews many locks of one node. Renewals that the node does not serve any more go to the node that does, one
    /// by one.
    pub(crate) async fn renew(&self, node: NodeId, members: Vec<Call>) -> Vec<Call> {
        let batches = alike(members).into_iter().map(|members| self.renew_alike(node, members));
        join_all(batches).await.into_iter().flatten().collect()
    }

    /// Renews locks of one node that share a script: all are read holds, all are holds of permits, or none is either.
    pub(crate) async fn renew_alike(&self, node: NodeId, mut members: Vec<Call>) -> Vec<Call> {
        let connection = match self.connection(node) {
            Ok(connection) => connection,
            Err(error) => {
                answer_all(&mut members, &Outcome::Failed(error));
                return members;
            }
        };
        let form = connection.batches();
        self.topology_publisher().set_batching(node, form.for_engine());
        match form {
            Batches::OneByOne => join_all(members.into_iter().map(|member| self.renew_alone(member))).await,
            Batches::BySlot => self.renew_by_slot_and_inquire(&connection, members).await,
            Batches::Declared | Batches::AcrossSlots => {
                // A proxy looks at the first key. Another one each time shows which server has it.
                let first = connection.now().as_nanos() as usize % members.len().max(1);
                members.rotate_left(first);
                if connection.renew(form, &mut members).await.is_err() {
                    answer_all(&mut members, &Outcome::Pending);
                }
                let mut members = self.finish_batch(form, members).await;
                members.rotate_right(first);
                members
            }
        }
    }

    // The inquiry is sent first, so its reply usually arrives before those of the renewals. The renewals do not
    // wait for it.
    async fn renew_by_slot_and_inquire(&self, connection: &Connection, members: Vec<Call>) -> Vec<Call> {
        let inquiry = async {
            connection.inquire().await;
            pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            never = inquiry => match never {},
            members = self.renew_by_slot(members) => members,
        }
    }

    async fn renew_by_slot(&self, members: Vec<Call>) -> Vec<Call> {
        let mut slots: BTreeMap<Slot, Vec<Call>> = BTreeMap::new();
        for member in members {
            slots.entry(member.key.slot()).or_default().push(member);
        }
        let renewed = join_all(slots.into_values().map(|members| self.renew_slot(members))).await;
        renewed.into_iter().flatten().collect()
    }

    // While a slot is migrated, a command with several keys works only if all of them have moved, or none.
    async fn renew_slot(&self, members: Vec<Call>) -> Vec<Call> {
        let members = self.renew_together(Part::Whole, members).await;
        self.finish_batch(Batches::BySlot, members).await
    }

    /// Repeats alone the renewals for which the reply to the batch does not settle the result.
    async fn finish_batch(&self, form: Batches, mut members: Vec<Call>) -> Vec<Call> {
        let is_conclusive = form.declares_one_key(members.len());
        let is_open = |member: &Call| is_open(&member.outcome, is_conclusive) || is_split(member);
        let Some(first) = members.iter().position(is_open) else {
            return members; // the usual case
        };
        let mut done = None;
        // If the server refused the whole batch, it may refuse each member as well. One member is tried first to
        // find out.
        if members.iter().filter(|member| is_open(member)).all(is_refused_as_batch) {
            let asked = self.renew_again(form, members[first].clone()).await;
            members[first] = asked;
            if is_refused_as_batch(&members[first]) {
                return members;
            }
            done = Some(first);
        }
        let ask = async |(n, member): (usize, Call)| {
            if done != Some(n) && is_open(&member) { self.renew_again(form, member).await } else { member }
        };
        join_all(members.into_iter().enumerate().map(ask)).await
    }

    async fn renew_again(&self, form: Batches, member: Call) -> Call {
        let first = member.outcome.clone();
        let mut member = self.renew_alone(member).await;
        if let Some(clock) = refuting(&first, &member.outcome) {
            self.refute(clock, form);
        }
        member.outcome = combined(first, member.outcome);
        member
    }

    fn refute(&self, by: ClockId, form: Batches) {
        if let Ok(connection) = self.connection(by.node) {
            connection.refute(form);
        }
    }

    pub(crate) async fn renew_alone(&self, member: Call) -> Call {
        let member = self.renew_part(Part::Whole, member).await;
        if is_split(&member) { self.renew_in_two(member).await } else { member }
    }

    // The timeout key is first: a hold that has expired must not lengthen the lock.
    async fn renew_in_two(&self, member: Call) -> Call {
        let timeout_key = self.renew_part(Part::TimeoutKey, member.clone()).await;
        if !matches!(timeout_key.outcome, Outcome::Renewed { .. }) {
            return timeout_key;
        }
        let mut member = self.renew_part(Part::Field, member).await;
        member.outcome = both(timeout_key.outcome, member.outcome);
        member
    }

    async fn renew_part(&self, part: Part, member: Call) -> Call {
        let mut alone = self.renew_together(part, vec![member]).await;
        let mut member = alone.pop().expect("one went in");
        if matches!(member.outcome, Outcome::Pending) {
            member.outcome = Outcome::Failed(slot_is_moving(member.key.slot()));
        }
        member
    }

    async fn renew_together(&self, part: Part, mut members: Vec<Call>) -> Vec<Call> {
        answer_all(&mut members, &Outcome::Pending);
        if let Err(error) = self.send_renewal(part, &mut members).await {
            answer_all(&mut members, &Outcome::Failed(error));
        }
        members
    }

    async fn send_renewal(&self, part: Part, members: &mut [Call]) -> Result<(), TransportError> {
        let mut route = self.route(members[0].key.slot(), members[0].execute_by)?;
        while let Err(call_error) = route.connection.renew_slot(part, members, route.asking).await {
            route.follow(call_error).await?;
        }
        Ok(())
    }
}

/// Splits renewals into those that one script can send.
fn alike(members: Vec<Call>) -> Vec<Vec<Call>> {
    let (permits, others): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|member| permits_of(member).is_some());
    let (reads, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_read);
    let mut batches = vec![reads, others];
    let mut left = 0;
    for member in permits {
        let permits = permits_of(&member).map_or(0, |permits| permits.get().into());
        match batches.last_mut() {
            Some(batch) if permits <= left => batch.push(member),
            _ => {
                batches.push(vec![member]);
                left = PERMITS_MAX;
            }
        }
        left = usize::saturating_sub(left, permits);
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

/// At most so many permits are renewed by one script, or those of one hold: a script keeps the server from other clients.
const PERMITS_MAX: usize = 10_000;

/// Whether the member has to be renewed again, in a command of its own. `is_conclusive`: the reply came from such a
/// command.
fn is_open(answer: &Outcome, is_conclusive: bool) -> bool {
    match answer {
        Outcome::Pending => true,
        Outcome::NotYours { .. } => !is_conclusive,
        Outcome::Failed(error) => !is_conclusive && (is_passing(error) || is_about_the_batch(error)),
        _ => false,
    }
}

fn is_refused_as_batch(member: &Call) -> bool {
    matches!(&member.outcome, Outcome::Failed(error) if is_about_the_batch(error))
}

/// Returns the clock of the server whose second reply shows that it answered the batch wrongly, or refused it only
/// because it was a batch.
fn refuting(batch: &Outcome, alone: &Outcome) -> Option<ClockId> {
    use Outcome::{Failed, NotYours, Renewed, TooLate};
    match (batch, alone) {
        // A different run of the server may have got its data back in between. So only the same run refutes its own
        // reply.
        (NotYours { at }, Renewed { at: again, .. }) => (at.clock == again.clock).then_some(again.clock),
        (Failed(error), Renewed { at, .. } | NotYours { at } | TooLate { at }) => {
            is_about_the_batch(error).then_some(at.clock)
        }
        _ => None,
    }
}

/// Returns the result of both replies. The second one counts. If the second request was not sent, an unknown effect
/// of the batch stays unknown.
fn combined(batch: Outcome, alone: Outcome) -> Outcome {
    match (batch, alone) {
        (Outcome::Failed(batch), Outcome::Failed(alone))
            if batch.effect != Effect::None && alone.effect == Effect::None =>
        {
            Outcome::Failed(batch)
        }
        (_, alone) => alone,
    }
}

/// Whether the keys of a read hold were refused together, because one of them has moved to another node and the other
/// has not.
fn is_split(member: &Call) -> bool {
    is_read(member) && matches!(&member.outcome, Outcome::Failed(error) if is_passing(error))
}

/// Returns the result for a read hold of the results for its timeout key, which was renewed, and for its field. The hold
/// lasts as long as both do.
fn both(timeout_key: Outcome, field: Outcome) -> Outcome {
    match (timeout_key, field) {
        (Outcome::Renewed { found, .. }, Outcome::Renewed { found: other, at }) => {
            Outcome::Renewed { found: found.min(other), at }
        }
        (_, field) => field,
    }
}

fn slot_is_moving(slot: Slot) -> TransportError {
    let detail = format!("redis: slot {} is being moved; ask again", slot.number());
    TransportError::without_effect(ErrorKind::NotReady, None, detail)
}

#[cfg(test)]
mod tests {
    use leasehold::transport::ServerTime;

    use super::*;

    fn at(epoch: u32, micros: u64) -> ServerTime {
        ServerTime { micros, clock: ClockId { node: NodeId(0), epoch } }
    }

    fn renewed(at: ServerTime) -> Outcome {
        Outcome::Renewed { found: std::time::Duration::ZERO, at }
    }

    fn unknown(kind: ErrorKind) -> Outcome {
        Outcome::Failed(TransportError::unknown(kind, at(1, 9), "ERR in words of its own"))
    }

    fn refused(kind: ErrorKind, text: &'static str) -> Outcome {
        Outcome::Failed(TransportError::without_effect(kind, None, text))
    }

    #[test]
    fn what_a_batch_says_against_a_lease_is_open() {
        let not_yours = Outcome::NotYours { at: at(1, 7) };
        for answer in [&not_yours, &unknown(ErrorKind::Protocol), &refused(ErrorKind::NotReady, "TRYAGAIN")] {
            assert!(is_open(answer, false) && !is_open(answer, true), "{answer:?}");
        }
        for answer in [renewed(at(1, 7)), unknown(ErrorKind::TimedOut), refused(ErrorKind::Denied, "NOPERM")]
        {
            assert!(!is_open(&answer, false), "{answer:?}");
        }
        assert!(is_open(&Outcome::Pending, true));
    }

    #[test]
    fn only_the_same_run_of_a_server_refutes_its_not_yours() {
        let not_yours = Outcome::NotYours { at: at(1, 7) };
        assert_eq!(refuting(&not_yours, &renewed(at(1, 8))), Some(at(1, 8).clock));
        assert_eq!(refuting(&not_yours, &renewed(at(2, 8))), None);
        assert_eq!(refuting(&not_yours, &not_yours), None);
        assert_eq!(refuting(&unknown(ErrorKind::Protocol), &not_yours), Some(at(1, 7).clock));
        assert_eq!(refuting(&refused(ErrorKind::NotReady, "TRYAGAIN"), &not_yours), None);
        assert_eq!(refuting(&Outcome::Pending, &renewed(at(1, 8))), None);
    }

    #[test]
    fn a_read_hold_lasts_as_long_as_both_its_keys() {
        let left =
            |millis| Outcome::Renewed { found: std::time::Duration::from_millis(millis), at: at(1, millis) };
        let shown = |outcome: Outcome| format!("{outcome:?}");
        let found = |one, other| match both(left(one), left(other)) {
            Outcome::Renewed { found, at } => (found.as_millis(), at.micros),
            answer => panic!("{answer:?}"),
        };
        assert_eq!((found(5, 3), found(3, 5)), ((3, 3), (3, 5)));
        for field in [Outcome::NotYours { at: at(1, 7) }, refused(ErrorKind::NotReady, "CLUSTERDOWN")] {
            assert_eq!(shown(both(left(5), field.clone())), shown(field));
        }
    }

    #[test]
    fn an_unknown_effect_is_not_forgotten_for_a_second_try_that_was_not_sent() {
        let combined =
            |batch: &Outcome, alone: &Outcome| format!("{:?}", combined(batch.clone(), alone.clone()));
        let (batch, not_sent) = (unknown(ErrorKind::Protocol), refused(ErrorKind::TimedOut, "not sent"));
        let (renewed, not_yours) = (renewed(at(1, 8)), Outcome::NotYours { at: at(1, 7) });
        assert_eq!(combined(&batch, &not_sent), format!("{batch:?}"));
        assert_eq!(combined(&batch, &renewed), format!("{renewed:?}"));
        assert_eq!(combined(&not_yours, &not_sent), format!("{not_sent:?}"));
    }
}

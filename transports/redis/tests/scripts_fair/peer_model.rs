//! What Redisson's scripts do to a fair lock and its line. Pure.

use crate::model::{Answer, Hold, Model, PEER_LEASE};

impl Model {
    fn drop_past(&mut self) {
        while let Some(head) = self.line.first().copied().filter(|head| self.deadlines[head] <= 0) {
            self.line.remove(0);
            self.deadlines.remove(&head);
        }
        self.settle();
    }

    pub(crate) fn lock(&mut self, actor: usize, lease: i64, wait: i64, joins: bool) -> Answer {
        self.drop_past();
        if self.hold.is_none() && self.line.first().is_none_or(|head| *head == actor) {
            self.line.retain(|other| *other != actor);
            self.deadlines.remove(&actor);
            self.deadlines.values_mut().for_each(|deadline| *deadline -= wait);
            self.hold = Some(Hold { actor, count: 1, left: lease });
            return Answer::Nil;
        }
        let left = self.left();
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.actor == actor) {
            (hold.count, hold.left) = (hold.count + 1, lease);
            return Answer::Nil;
        }
        if !joins {
            return Answer::Number(1);
        }
        if self.deadlines.contains_key(&actor) {
            return Answer::Number(left.max(0));
        }
        let base = self.line.last().map_or(left, |tail| self.deadlines[tail]);
        self.deadlines.insert(actor, base + wait);
        self.line.push(actor);
        Answer::Number(base)
    }

    pub(crate) fn unlock(&mut self, actor: usize, told: &mut Vec<usize>) -> Answer {
        self.drop_past();
        let Some(hold) = &mut self.hold else {
            told.extend(self.line.first());
            return Answer::Number(1);
        };
        if hold.actor != actor {
            return Answer::Nil;
        }
        hold.count -= 1;
        if hold.count > 0 {
            hold.left = PEER_LEASE;
            return Answer::Number(0);
        }
        self.hold = None;
        told.extend(self.line.first());
        Answer::Number(1)
    }

    pub(crate) fn give_up(&mut self, actor: usize, wait: i64) -> Answer {
        let Some(place) = self.line.iter().position(|other| *other == actor) else { return Answer::None };
        for follower in self.line.split_off(place).into_iter().skip(1) {
            *self.deadlines.get_mut(&follower).unwrap() -= wait;
            self.line.push(follower);
        }
        self.deadlines.remove(&actor);
        Answer::None
    }
}

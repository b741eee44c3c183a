//! The operations on semaphores and latches on one connection.

use fred::bytes_utils::Str;
use leasehold::transport::{Counter, CounterCall, CounterOp, CounterReply};

use super::{
    call_error::{CallError, without_any_effect},
    node_connection::Connection,
    requests::{micros, millis, text},
    script_call::Asking,
};
use crate::wire::{
    arg::Arg,
    names::{latch_channel, marker, permit_deadlines, semaphore_channel},
    reply::Counted,
    scripts::Script,
};

impl Connection {
    /// Does one operation on a counter.
    pub(crate) async fn count(&self, call: &CounterCall, asking: Asking) -> Result<CounterReply, CallError> {
        let _permit = self.permit(call.execute_by).await?;
        let limit = self.limit(call.execute_by)?;
        let (script, keys, given) = match call.op {
            CounterOp::Read => (count_of(call.counter), counted_keys(call), Vec::new()),
            _ => (script_of(call.counter), keys(call), self.arguments(call, limit.not_after.micros)),
        };
        let args = |head: &Str| {
            let count = Arg::Number(i64::try_from(keys.len()).unwrap_or(i64::MAX));
            let head = [Arg::Text(head.clone()), count];
            head.into_iter().chain(keys.iter().cloned()).chain(given.iter().cloned()).collect()
        };
        let answer = self.run((script, asking), args, limit, Counted::read, Counted::now).await;
        let answer = match call.op {
            // A script that only reads has no effect, even if its reply is lost.
            CounterOp::Read => answer.map_err(without_any_effect)?,
            _ => answer?,
        };
        let too_late = matches!(answer.value, Counted::TooLate { .. });
        self.observe(answer.sample, too_late);
        Ok(match answer.value {
            Counted::Done { result, left, now } => CounterReply::Done { result, left, at: self.at(now) },
            Counted::TooLate { now } => CounterReply::TooLate { at: self.at(now) },
        })
    }

    fn arguments(&self, call: &CounterCall, latest: u64) -> Vec<Arg> {
        let mut args = vec![
            micros(latest),
            micros(call.number),
            millis(call.remember),
            text(&channel(call.key.on_server(), call.counter)),
            Arg::word(self.publishes()),
        ];
        let number = |number: u32| Arg::Number(number.into());
        let (word, more) = match &call.op {
            CounterOp::Take(wants) => ("take", wants.iter().map(|permits| number(permits.get())).collect()),
            CounterOp::Give(permits) => ("give", vec![number(permits.get())]),
            CounterOp::SetIfAbsent(count) => ("set", vec![number(*count)]),
            CounterOp::Add(permits) => ("add", vec![Arg::Number((*permits).into())]),
            CounterOp::Drain => ("drain", vec![]),
            CounterOp::CountDown(steps) => ("count", vec![number(steps.get())]),
            CounterOp::Delete => ("delete", vec![]),
            CounterOp::Void { number } => ("void", vec![micros(*number)]),
            CounterOp::Read => ("read", vec![]),
        };
        args.push(Arg::word(word));
        args.extend(more);
        args
    }
}

/// The channel of a counter.
pub(crate) fn channel(name: &str, counter: Counter) -> String {
    match counter {
        Counter::Semaphore | Counter::PermitTotal => semaphore_channel(name),
        Counter::Latch => latch_channel(name),
    }
}

fn script_of(counter: Counter) -> Script {
    match counter {
        Counter::Semaphore | Counter::PermitTotal => Script::Semaphore,
        Counter::Latch => Script::Latch,
    }
}

fn count_of(counter: Counter) -> Script {
    match counter {
        Counter::Semaphore | Counter::Latch => Script::Count,
        Counter::PermitTotal => Script::PermitCount,
    }
}

fn counted_keys(call: &CounterCall) -> Vec<Arg> {
    let deadlines = (call.counter == Counter::PermitTotal).then(|| text(&permit_deadlines(&call.key)));
    std::iter::once(text(call.key.on_server())).chain(deadlines).collect()
}

fn keys(call: &CounterCall) -> Vec<Arg> {
    let (name, client) = (call.key.on_server(), call.client.as_hyphenated().to_string());
    vec![text(name), text(&marker(name, &client))]
}

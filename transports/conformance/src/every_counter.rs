//! What every counter does: each number of a client counts once.

use std::time::Duration;

use leasehold::transport::{Counter, CounterOp, CounterReply};

use super::{
    Context, Fixture, OtherDataGround,
    counting::{Client, done, is_not_done, some},
};

const ALL: [Counter; 3] = [Counter::Semaphore, Counter::Latch, Counter::PermitTotal];

/// An operation that can be seen in the number.
fn step(counter: Counter) -> CounterOp {
    match counter {
        Counter::Semaphore => CounterOp::Give(some(1)),
        Counter::Latch => CounterOp::CountDown(some(1)),
        Counter::PermitTotal => CounterOp::Add(1),
    }
}

/// What the step makes of ten.
fn stepped(counter: Counter, times: i64) -> i64 {
    match counter {
        Counter::Semaphore | Counter::PermitTotal => 10 + times,
        Counter::Latch => 10 - times,
    }
}

/// The result of the first step.
fn result(counter: Counter) -> i64 {
    match counter {
        Counter::Semaphore | Counter::Latch => 1,
        Counter::PermitTotal => stepped(counter, 1),
    }
}

/// A resend after a lost reply gets the first answer and changes nothing.
pub async fn a_number_counts_once<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        client.set(10).await;
        let call = client.next(step(counter));
        for lane in [&context.calls, &context.others, &context.calls] {
            let reply = client.send_over(&**lane, &call).await;
            assert_eq!(done(reply), (result(counter), stepped(counter, 1)), "{counter}");
        }
        assert_eq!(client.shown().await, stepped(counter, 1), "{counter}");
    }
}

/// A copy of something settled that comes late is not executed.
pub async fn a_number_below_the_last_is_too_late<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        client.set(10).await;
        let late = client.next(step(counter));
        client.count(step(counter)).await;
        let reply = client.send_over(&*context.calls, &late).await;
        assert!(matches!(reply, Ok(CounterReply::TooLate { .. })), "{reply:?}");
        assert_eq!(client.shown().await, stepped(counter, 1), "{counter}");
    }
}

/// Not executed means that its number may still come in time.
pub async fn an_operation_past_its_limit_is_not_executed<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        client.set(10).await;
        let mut call = client.next(step(counter));
        let in_time = call.execute_by;
        call.execute_by = context.now().before(Duration::from_secs(10));
        let reply = client.send_over(&*context.calls, &call).await;
        assert!(is_not_done(&reply), "{reply:?}");
        assert_eq!(client.shown().await, 10, "{counter}");
        call.execute_by = in_time;
        assert_eq!(client.send(&call).await.0, result(counter), "{counter}");
    }
}

/// The numbers of one client say nothing about those of another.
pub async fn clients_have_numbers_of_their_own<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        let other = client.other();
        client.set(10).await;
        for sender in [&client, &other] {
            sender.send(&sender.numbered(7, step(counter))).await;
        }
        assert_eq!(client.shown().await, stepped(counter, 2), "{counter}");
    }
}

/// The first to set it is the only one.
pub async fn a_counter_is_set_only_if_it_does_not_exist<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        assert_eq!(client.count(CounterOp::SetIfAbsent(3)).await, 1, "{counter}");
        assert_eq!(client.other().count(CounterOp::SetIfAbsent(5)).await, 0, "{counter}");
        assert_eq!(client.shown().await, 3, "{counter}");
    }
}

/// A read makes nothing, and the next operation is not hindered by it.
pub async fn a_read_changes_nothing<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        assert_eq!(client.shown().await, 0, "{counter}");
        client.set(10).await;
        for _ in 0..3 {
            assert_eq!(client.shown().await, 10, "{counter}");
        }
        assert_eq!(client.count(step(counter)).await, result(counter), "{counter}");
    }
}

/// What is remembered of a client does not stay for ever.
pub async fn an_operation_is_forgotten_in_time<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        client.set(10).await;
        client.remember = Duration::from_millis(200);
        let call = client.next(step(counter));
        client.send(&call).await;
        context
            .until(async || {
                client.send(&client.numbered(call.number, step(counter))).await;
                client.shown().await == stepped(counter, 2)
            })
            .await;
    }
}

/// Two counters with names that differ by little.
pub async fn counters_have_names_of_their_own<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        for (place, name) in ["a", "A", "a ", "ä", "a:b", "\u{1F512}"].into_iter().enumerate() {
            let mut client = Client::new(&context, &format!("{counter}{name}"), counter);
            client.set(place as u32 + 1).await;
            assert_eq!(client.shown().await, place as i64 + 1, "{counter} {name:?}");
        }
    }
}

/// As every answer does.
pub async fn a_counters_answer_carries_the_nodes_present_clock<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        let call = client.next(CounterOp::SetIfAbsent(1));
        let at = client.send_over(&*context.calls, &call).await.expect("an answer").at();
        assert!(context.calls.topology().borrow().is_current(at.clock), "{at:?}");
    }
}

/// A key that holds something else stays as it is.
pub async fn data_that_is_no_counter_is_refused_and_kept<G: OtherDataGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    for counter in ALL {
        let mut client = Client::new(&context, counter.as_str(), counter);
        fixture.put_other_data(&client.key).await;
        for op in [step(counter), CounterOp::SetIfAbsent(3), CounterOp::Read] {
            let call = client.next(op);
            let error = client.send_over(&*context.calls, &call).await.expect_err("no counter");
            assert_eq!(error.kind, leasehold::transport::ErrorKind::WrongType, "{error}");
            assert_eq!(error.effect, leasehold::transport::Effect::None, "{error}");
        }
        assert!(fixture.other_data_is_unchanged(&client.key).await, "{counter}");
    }
}

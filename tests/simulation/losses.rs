//! The stream of losses.

use leasehold::{Lease, LossEvent, LossReason};
use leasehold_tests::conservation::assert_balanced;

use crate::fixture::{breathe, fixture, ground_with, millis, now, seconds};

#[tokio::test(start_paused = true)]
async fn every_reader_hears_every_loss_with_name_token_reason_and_times() {
    let fixture = fixture().await;
    let (mut one, mut two) = (fixture.engine.losses(), fixture.engine.losses());
    let lease = fixture.engine.lock("a").ttl(seconds(4)).no_renewal().acquire().await.unwrap();
    let (granted, deadline) = (now(), now() + lease.remaining());
    for losses in [&mut one, &mut two] {
        let Some(LossEvent::Lost(loss)) = losses.next().await else { panic!("nothing was missed") };
        assert_eq!((&*loss.name, loss.reason), ("a", LossReason::Expired));
        assert_eq!((loss.fencing_token, loss.deadline), (lease.fencing_token(), deadline));
        assert!(loss.at >= deadline && loss.at - deadline <= millis(100), "{loss:?}");
        assert_eq!(loss.held, loss.at - granted);
        assert!(losses.try_next().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_hears_nothing_from_before_it_was_made_and_no_release() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.engine.lock("a").force_release().await.unwrap();
    lease.lost().await;
    drop(lease);
    let mut losses = fixture.engine.losses();
    fixture.engine.lock("b").acquire().await.unwrap().release().await.unwrap();
    drop(fixture.engine.lock("b").acquire().await.unwrap());
    fixture.settles_within(seconds(1)).await;
    assert!(losses.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_is_heard_at_the_next_renewal() {
    let fixture = fixture().await;
    let mut losses = fixture.engine.losses();
    let lease = fixture.engine.lock("a").ttl(seconds(9)).acquire().await.unwrap();
    let granted = now();
    assert!(fixture.other().await.lock("a").force_release().await.unwrap());
    let Some(LossEvent::Lost(loss)) = losses.next().await else { panic!("nothing was missed") };
    assert_eq!(loss.reason, LossReason::NotOurs);
    assert!(loss.at - granted >= seconds(3) && loss.at - granted <= millis(3_100), "{loss:?}");
    assert!(!lease.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_reader_is_told_the_last_losses_and_then_the_end() {
    for by_shutdown in [true, false] {
        let fixture = fixture().await;
        let mut losses = fixture.engine.losses();
        let lease = fixture.engine.lock("a").ttl(seconds(1)).no_renewal().acquire().await.unwrap();
        lease.lost().await;
        drop(lease);
        let reader = tokio::spawn(async move {
            let mut names = Vec::new();
            while let Some(LossEvent::Lost(loss)) = losses.next().await {
                names.push(loss.name.to_string());
            }
            names
        });
        let kept = fixture.engine.lock("b").acquire().await.unwrap();
        match by_shutdown {
            true => assert_eq!(fixture.engine.shutdown(seconds(1)).await.released, 1),
            false => kept.release().await.unwrap(),
        }
        drop(fixture);
        let told = tokio::time::timeout(seconds(2), reader).await.expect("the stream ends").unwrap();
        assert_eq!(told, if by_shutdown { vec!["a", "b"] } else { vec!["a"] });
    }
}

// Losses are told in portions of 64.
#[tokio::test(start_paused = true)]
async fn a_shutdown_tells_every_loss_that_is_not_told_yet() {
    const LEASES: usize = 1_000;
    let fixture = ground_with(|builder| builder.metrics()).await;
    let mut losses = fixture.engine.losses();
    let names = (0..LEASES).map(|number| format!("lease {number}"));
    let asked = fixture.engine.acquire_all(names).ttl(seconds(2)).no_renewal().await;
    let leases: Vec<Lease> = asked.into_iter().collect::<Result<_, _>>().expect("free");
    let waiters: Vec<_> = leases.iter().map(|lease| tokio::spawn(lease.lost())).collect();
    assert!(matches!(losses.next().await, Some(LossEvent::Lost(_))));
    let report = fixture.engine.shutdown(millis(0)).await;
    breathe().await;
    assert_eq!(std::iter::from_fn(|| losses.try_next()).count(), LEASES - 1);
    assert_eq!(waiters.iter().filter(|waiter| !waiter.is_finished()).count(), 0, "who waits is told");
    let seen = fixture.engine.snapshot();
    assert_eq!((seen.held, seen.lost, report.unconfirmed.len()), (0, LEASES as u64, LEASES));
    assert_balanced(&fixture.engine);
}

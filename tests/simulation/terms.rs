//! The terms of a lease: ttl, renewal, `max_hold`, renewal by hand, and what the holder may believe meanwhile.

use leasehold::{LeaseState, LossReason, ReleaseError, RenewError, margin};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation};

use crate::fixture::{Traffic, What, breathe, engine, fixture, millis, now, pass, seconds, timed, until};

#[tokio::test(start_paused = true)]
async fn s2_the_deadline_lies_a_margin_before_the_servers_expiry() {
    let fixture = fixture().await;
    for ttl in [1, 2, 30, 600] {
        let lock = fixture.engine.lock(format!("{ttl}")).ttl(seconds(ttl));
        let lease = lock.acquire().await.unwrap();
        assert_eq!(lease.remaining(), seconds(ttl) - margin(seconds(ttl)));
        assert_eq!(lock.holder().await.unwrap().unwrap().remaining, Some(seconds(ttl)));
    }
}

#[tokio::test(start_paused = true)]
async fn s2_a_lease_that_is_not_renewed_is_held_until_its_deadline_and_not_a_moment_longer() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").ttl(seconds(10)).no_renewal().acquire().await.unwrap();
    let deadline = now() + lease.remaining();
    until(deadline.before(millis(1))).await;
    assert!(lease.is_held() && lease.ensure_held().is_ok());
    until(deadline).await;
    assert!(!lease.is_held() && lease.remaining() == millis(0));
    assert_eq!(lease.ensure_held().map_err(|not_held| not_held.reason), Err(LossReason::Expired));
    let (reason, late) = timed(lease.lost()).await;
    assert!(late <= millis(100), "two ticks: {late:?}");
    assert_eq!((reason, lease.state()), (LossReason::Expired, LeaseState::Lost(LossReason::Expired)));
    assert!(matches!(lease.release().await, Err(ReleaseError::AlreadyLost(LossReason::Expired))));
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_a_third_of_its_ttl_and_within_two_ticks() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    for ttl in [1, 7, 30, 90] {
        let lease = engine.lock("a").ttl(seconds(ttl)).acquire().await.unwrap();
        traffic.clear();
        let mut last = now();
        pass(seconds(ttl * 4)).await;
        let renewals = traffic.of(What::Renewal);
        let least = seconds(ttl * 4).div_duration_f64(seconds(ttl) / 3 + millis(100)) as usize;
        assert!(renewals.len() >= least && renewals.len() <= 12, "ttl {ttl}: {}", renewals.len());
        for renewal in renewals {
            let after = renewal.at - last;
            assert!(after >= seconds(ttl) / 3, "ttl {ttl}: early by {:?}", seconds(ttl) / 3 - after);
            assert!(after <= seconds(ttl) / 3 + millis(100), "ttl {ttl}: {after:?}");
            last = renewal.at;
        }
        lease.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_lease_at_the_deadline_after_it() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").ttl(seconds(9)).max_hold(seconds(20)).acquire().await.unwrap();
    let taken = now();
    let reason = lease.lost().await;
    let held = now() - taken;
    // The last renewal goes out before 20 s; its deadline is 8.55 s later.
    assert!(held > seconds(20) && held <= seconds(29), "{held:?}");
    assert_eq!(reason, LossReason::MaxHold);
    assert!(matches!(lease.release().await, Err(ReleaseError::AlreadyLost(LossReason::MaxHold))));
}

#[tokio::test(start_paused = true)]
async fn max_hold_counts_from_the_moment_the_lease_is_taken() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(9)).max_hold(seconds(20));
    let mut acquiring = Box::pin(lock.acquire());
    assert!(crate::fixture::poll_once(&mut acquiring.as_mut()).await.is_none());
    pass(seconds(60)).await; // granted and renewed, not taken
    let lease = acquiring.await.unwrap();
    pass(seconds(20)).await;
    assert!(lease.is_held());
    assert_eq!(lease.lost().await, LossReason::MaxHold);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_lengthens_and_never_shortens() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(10)).no_renewal();
    let lease = lock.acquire().await.unwrap();
    lease.renew(seconds(60)).await.unwrap();
    assert_eq!(lease.remaining(), seconds(57));
    assert_eq!(lock.holder().await.unwrap().unwrap().remaining, Some(seconds(60)));
    lease.renew(seconds(20)).await.unwrap();
    assert_eq!(lease.remaining(), seconds(57));
    assert_eq!(lock.holder().await.unwrap().unwrap().remaining, Some(seconds(60)));
    pass(seconds(50)).await;
    assert!(lease.is_held());
    assert_eq!(lease.lost().await, LossReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn each_of_several_renewals_by_hand_at_once_is_answered() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    breathe().await;
    fixture.faults.on(Operation::Renew).inject(Fault::DelayReply(millis(300)));
    let (one, two) = (tokio::spawn(lease.renew(seconds(40))), tokio::spawn(lease.renew(seconds(50))));
    breathe().await;
    let three = tokio::spawn(lease.renew(seconds(60)));
    for renewed in [one, two, three] {
        renewed.await.unwrap().unwrap();
    }
    assert!(lease.remaining() > seconds(56), "{:?}", lease.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_without_an_answer_is_unknown_and_of_a_lost_lease_lost() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.on(Operation::Renew).inject(Fault::LoseReply);
    let before = now() + lease.remaining();
    let renewed = lease.renew(seconds(60)).await;
    assert!(matches!(renewed, Err(RenewError::Unknown(_))), "{renewed:?}");
    assert_eq!(now() + lease.remaining(), before);
    fixture.engine.lock("a").force_release().await.unwrap();
    let renewed = lease.renew(seconds(60)).await;
    assert!(matches!(renewed, Err(RenewError::Lost(LossReason::NotOurs))), "{renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_of_a_lease_that_is_released_meanwhile_says_so() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.on(Operation::Renew).nth(1).inject(Fault::DelayReply(millis(500)));
    let renew = tokio::spawn(lease.renew(seconds(40)));
    let too_late = lease.renew(seconds(40));
    pass(millis(100)).await;
    lease.release().await.unwrap();
    let renewed = renew.await.unwrap();
    assert!(matches!(renewed, Err(RenewError::Released)), "{renewed:?}");
    pass(seconds(1)).await;
    let renewed = too_late.await;
    assert!(matches!(renewed, Err(RenewError::Released)), "{renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn s11_a_release_ends_the_lease_before_anything_is_sent() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let lease = engine.lock("a").acquire().await.unwrap();
    let releasing = lease.release(); // called, not awaited: nothing of the engine has run since
    assert_eq!((engine.snapshot().held, traffic.count(What::Release)), (0, 0));
    releasing.await.unwrap();
    assert_eq!(traffic.count(What::Release), 1);
}

#[test]
fn a_release_whose_engine_is_gone_before_the_answer_is_unknown() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let theirs = runtime();
    let lease = theirs.block_on(async {
        let engine = engine(&MemoryTransport::new()).await;
        engine.lock("a").acquire().await.unwrap()
    });
    let releasing = lease.release();
    drop(theirs);
    let released = runtime().block_on(releasing);
    assert!(matches!(released, Err(ReleaseError::Unknown { .. })), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_release_says_by_when_the_server_has_forgotten_the_longest_renewal() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a").ttl(seconds(10)).no_renewal();
    let lease = lock.acquire().await.unwrap();
    lease.renew(seconds(600)).await.unwrap();
    fixture.faults.cut(Cut::BlackHole);
    let Err(ReleaseError::Unknown { gone_by, within, .. }) = lease.release().await else { panic!("cut off") };
    assert!(gone_by >= now() + within && within >= seconds(599), "{within:?}");
    fixture.faults.heal();
    fixture.settles_within(seconds(10)).await;
    assert!(!lock.is_locked().await.unwrap());
}

//! Read/write locks whose callers wait: for whom a "held" speaks, and what callers that leave leave behind.

use crate::fixture::{breathe, fixture, millis, pass, timed};

#[tokio::test(start_paused = true)]
async fn a_writer_that_leaves_lets_the_readers_behind_it_read_with_others_at_once() {
    for limit in [None, Some(millis(300))] {
        let fixture = fixture().await;
        let reader = fixture.other().await.rw_lock("a").read().acquire().await.unwrap();
        let lock = fixture.engine.rw_lock("a");
        let write = limit.map_or(lock.write(), |limit| lock.write().wait(limit));
        let writer = tokio::spawn(write.acquire());
        breathe().await;
        let behind = tokio::spawn(lock.read().acquire());
        pass(millis(200)).await;
        assert!(!behind.is_finished(), "no reader passes a writer");
        if limit.is_none() {
            writer.abort();
        }
        drop(writer.await);
        let (behind, took) = timed(behind).await;
        assert!(behind.unwrap().unwrap().is_held() && took <= millis(5), "{limit:?}: {took:?}");
        assert!(reader.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_only_tries_is_answered_at_once_while_a_writer_waits_for_another_process() {
    let fixture = fixture().await;
    let reader = fixture.other().await.rw_lock("a").read().acquire().await.unwrap();
    let lock = fixture.engine.rw_lock("a");
    let writer = tokio::spawn(lock.write().acquire());
    breathe().await;
    let (tried, took) = timed(lock.read().try_acquire()).await;
    assert!(tried.unwrap().is_none() && took <= millis(5), "{took:?}");
    reader.release().await.unwrap();
    assert!(writer.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_only_tries_says_nothing_against_a_reader_that_tries_with_it() {
    let fixture = fixture().await;
    let reader = fixture.other().await.rw_lock("a").read().acquire().await.unwrap();
    let lock = fixture.engine.rw_lock("a");
    let (write, read) = (tokio::spawn(lock.write().try_acquire()), tokio::spawn(lock.read().try_acquire()));
    assert!(write.await.unwrap().unwrap().is_none());
    let (read, took) = timed(read).await;
    assert!(read.unwrap().unwrap().is_some() && took <= millis(5), "{took:?}");
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_scope_no_longer_waits_to_write_lets_other_readers_in() {
    let fixture = fixture().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let held = lock.write().acquire().await.unwrap();
    let writer = tokio::spawn(lock.write().reentry(&scope).acquire());
    breathe().await;
    let reader = tokio::spawn(lock.read().reentry(&scope).acquire());
    breathe().await;
    writer.abort();
    breathe().await;
    held.release().await.unwrap();
    let reader = reader.await.unwrap().unwrap();
    pass(millis(100)).await;
    let other = fixture.other().await.rw_lock("a").read().try_acquire().await.unwrap();
    assert!(other.is_some() && reader.is_held());
    reader.release().await.unwrap();
    drop(other);
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_came_before_the_writer_of_its_scope_that_stays_reads_on_after_it() {
    let fixture = fixture().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let (read, write) = (lock.read().reentry(&scope), lock.write().reentry(&scope));
    let held = lock.write().acquire().await.unwrap();
    let leaves = tokio::spawn(write.acquire());
    breathe().await;
    let reader = tokio::spawn(read.acquire());
    breathe().await;
    let stays = tokio::spawn(write.acquire());
    breathe().await;
    leaves.abort();
    breathe().await;
    held.release().await.unwrap();
    let (reader, writer) = (reader.await.unwrap().unwrap(), stays.await.unwrap().unwrap());
    assert!(lock.read().try_acquire().await.unwrap().is_none(), "the scope writes");
    writer.release().await.unwrap();
    pass(millis(100)).await;
    let other = fixture.other().await.rw_lock("a").read().try_acquire().await.unwrap();
    assert!(other.is_some() && reader.is_held(), "only its reader is left");
}

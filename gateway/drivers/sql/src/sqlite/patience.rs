//! How long another process's lock is waited for.
//!
//! Invariant: nobody waits for a lock past the time at which somebody must have been told. A statement that
//! only waited for the lock has stored nothing, and its rows are to be `failed` before the engine, which
//! cannot know that, makes them `unknown` at their deadline. SQLite's own waiting cannot be told about
//! deadlines, so it is off, and a statement that finds the lock taken is tried again from here.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::error::{BUSY, SqlError};

/// The first pause; each is twice the one before. Most transactions are over within a few milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause: how late a lock that was given back is noticed. A try costs about 0.1 ms.
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// How long before a batch's deadline its lock is given up, so that the failure is told in time.
const TO_TELL: Duration = Duration::from_millis(100);

/// What is left of the time for waiting.
#[derive(Debug)]
pub(super) struct Patience {
    since: Instant,
    until: Instant,
    pause: Duration,
}

impl Patience {
    /// Waits so long, and never into the last moments before the deadline.
    pub(super) fn new(timeout: Duration, deadline: Option<Instant>) -> Self {
        let since = Instant::now();
        let until = since.checked_add(timeout).unwrap_or(since);
        let told = deadline.map(|deadline| deadline.checked_sub(TO_TELL).unwrap_or(since));
        Self {
            since,
            until: told.map_or(until, |told| until.min(told)),
            pause: FIRST_PAUSE,
        }
    }

    /// Whether what ended like this is to be tried again, after a pause. An error that ends the waiting
    /// comes back with how long it was.
    pub(super) async fn again<T>(
        &mut self,
        result: Result<T, SqlError>,
    ) -> Result<Option<T>, SqlError> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        if error.primary != BUSY {
            return Err(error);
        }
        let now = Instant::now();
        if now >= self.until {
            let waited = now.saturating_duration_since(self.since).as_millis();
            let message = format!("{} for {waited} ms", error.message);
            return Err(SqlError { message, ..error });
        }
        sleep_until(self.until.min(now + self.pause)).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a lock that never ends is waited for, and the error in the end.
    async fn waited(timeout_ms: u64, deadline_ms: Option<u64>) -> (u64, String) {
        let start = Instant::now();
        let deadline = deadline_ms.map(|ms| start + Duration::from_millis(ms));
        let mut patience = Patience::new(Duration::from_millis(timeout_ms), deadline);
        loop {
            let busy = SqlError::sqlite(517, "database is locked");
            match patience.again::<()>(Err(busy)).await {
                Ok(done) => assert_eq!(done, None),
                Err(error) => {
                    let waited = u64::try_from(start.elapsed().as_millis()).unwrap();
                    return (waited, error.message);
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_waited_for_as_long_as_configured_but_never_into_the_deadline() {
        let says = |ms: u64| (ms, format!("database is locked for {ms} ms"));
        assert_eq!(waited(5_000, None).await, says(5_000));
        assert_eq!(waited(5_000, Some(60_000)).await, says(5_000));
        assert_eq!(waited(5_000, Some(1_000)).await, says(900));
        assert_eq!(waited(5_000, Some(20)).await, says(0));
        assert_eq!(waited(0, None).await, says(0));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_lock_is_waited_for() {
        let mut patience = Patience::new(Duration::from_secs(5), None);
        assert_eq!(patience.again(Ok(7)).await, Ok(Some(7)));
        let full = SqlError::sqlite(13, "database or disk is full");
        assert_eq!(patience.again::<()>(Err(full.clone())).await, Err(full));
    }
}

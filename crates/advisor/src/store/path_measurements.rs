//! End-to-end measurements: round-trip times and reported transfers.

use fairwind_advice::wire::{Direction, Limited, TransferReport};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::error::Trouble;
use super::sqlite::run;
use super::{PathId, RoundTrip, Store, StoreError};

impl Store {
    /// The path's newest round-trip times, newest first.
    pub async fn round_trips(&self, path: PathId, most: u32) -> Result<Vec<RoundTrip>, StoreError> {
        let rows = sqlx::query_as(
            "SELECT time_us, rtt_ms, source FROM round_trip WHERE path = ? \
             ORDER BY time_us DESC LIMIT ?",
        );
        let rows = rows.bind(path.0).bind(most).fetch_all(&self.readers).await;
        let rows: Vec<(i64, f64, String)> = self.read(rows)?;
        let rows = rows.into_iter().map(|(time_us, rtt_ms, source)| {
            Ok::<_, Trouble>(RoundTrip {
                time: time(time_us)?,
                rtt_ms,
                source,
            })
        });
        self.read(rows.collect())
    }

    /// The path's newest transfers with their end times, newest first.
    pub async fn transfers(
        &self,
        path: PathId,
        most: u32,
    ) -> Result<Vec<(Timestamp, TransferReport)>, StoreError> {
        let rows = sqlx::query_as(
            "SELECT time_us, host, direction, bytes, seconds, retransmits, rtt_ms, network_s, \
             receiver_s, sender_s FROM transfer WHERE path = ? ORDER BY time_us DESC, id DESC LIMIT ?",
        );
        let rows = rows.bind(path.0).bind(most).fetch_all(&self.readers).await;
        let rows: Vec<TransferRow> = self.read(rows)?;
        let transfers: Result<_, Trouble> = rows.into_iter().map(transfer).collect();
        self.read(transfers)
    }

    /// Deletes round-trip times and transfers before `oldest`.
    pub async fn forget_before(&self, path: PathId, oldest: Timestamp) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let forgotten = forget_before(&mut transaction.connection, path, oldest).await;
        self.end(transaction, forgotten).await
    }
}

/// Stores a round-trip time, replacing one of the same microsecond.
pub(super) async fn write_round_trip(
    connection: &mut SqliteConnection,
    path: PathId,
    one: &RoundTrip,
) -> Result<(), Trouble> {
    sqlx::query(
        "INSERT OR REPLACE INTO round_trip (path, time_us, rtt_ms, source) VALUES (?, ?, ?, ?)",
    )
    .bind(path.0)
    .bind(one.time.as_microsecond())
    .bind(one.rtt_ms)
    .bind(&one.source)
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores the result of a transfer.
pub(super) async fn write_transfer(
    connection: &mut SqliteConnection,
    path: PathId,
    time: Timestamp,
    report: &TransferReport,
) -> Result<(), Trouble> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    sqlx::query(
        "INSERT INTO transfer (path, time_us, host, direction, bytes, seconds, retransmits, rtt_ms, \
         network_s, receiver_s, sender_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(path.0)
    .bind(time.as_microsecond())
    .bind(&report.host)
    .bind(report.direction.name())
    .bind(number(report.bytes))
    .bind(report.seconds)
    .bind(report.retransmits.map(number))
    .bind(report.rtt_ms)
    .bind(report.limited.map(|limited| limited.network_s))
    .bind(report.limited.map(|limited| limited.receiver_s))
    .bind(report.limited.map(|limited| limited.sender_s))
    .execute(connection)
    .await?;
    Ok(())
}

/// Time, host, direction, bytes and seconds of a transfer; retransmissions and round-trip time; how long the
/// network, the receiver and the sender limited it.
#[rustfmt::skip]
type TransferRow = (
    i64, String, String, i64, f64, Option<i64>, Option<f64>, Option<f64>, Option<f64>, Option<f64>,
);

fn transfer(row: TransferRow) -> Result<(Timestamp, TransferReport), Trouble> {
    let (time_us, host, direction, bytes, seconds, retransmits, rtt_ms, network, receiver, sender) =
        row;
    let direction = Direction::named(&direction)
        .ok_or_else(|| Trouble::Damaged(format!("a transfer that was {direction}")))?;
    let times = network.zip(receiver).zip(sender);
    let limited = times.map(|((network_s, receiver_s), sender_s)| Limited {
        network_s,
        receiver_s,
        sender_s,
    });
    let report = TransferReport {
        host,
        bytes: bytes.unsigned_abs(),
        seconds,
        retransmits: retransmits.map(i64::unsigned_abs),
        rtt_ms,
        limited,
        direction,
    };
    Ok((time(time_us)?, report))
}

async fn forget_before(
    connection: &mut SqliteConnection,
    path: PathId,
    oldest: Timestamp,
) -> Result<(), Trouble> {
    for statement in [
        "DELETE FROM round_trip WHERE path = ? AND time_us < ?",
        "DELETE FROM transfer WHERE path = ? AND time_us < ?",
    ] {
        run(connection, statement, &[path.0, oldest.as_microsecond()]).await?;
    }
    Ok(())
}

fn time(time_us: i64) -> Result<Timestamp, Trouble> {
    Timestamp::from_microsecond(time_us)
        .map_err(|error| Trouble::Damaged(format!("a time: {error}")))
}

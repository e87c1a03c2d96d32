//! Every key that the gateway itself knows. Adapters bring their own for connections and
//! destinations; their manifests say which.
//!
//! The doc comments are the reference that `sluicegate config` prints, so they speak to whoever
//! writes a configuration.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use sluicegate_core::Order;

use super::section::section;
use super::setting::{Listen, LogFormat, LogLevel};

/// The default port: unassigned, and easy to remember.
pub(crate) const PORT: u16 = 7077;

section! {
    /// Where applications connect.
    pub(crate) struct Top {
        /// TCP address. The gateway neither encrypts nor asks who calls: keep it on the loopback
        /// interface, or on a network where everyone may publish. Port 0 takes a free one. Empty: no TCP.
        listen: Listen = Listen(Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT))),
        /// Unix socket beside it, readable and writable by the gateway's own user alone.
        unix_socket: Option<PathBuf> = None; "\"/run/sluicegate/sluicegate.sock\"",
    }
}

section! {
    /// Where adapters are, and what they may use.
    pub(crate) struct Adapters {
        /// Directory of the adapters' components. By default the directory `adapters` beside the
        /// executable.
        path: Option<PathBuf> = None; "\"/usr/lib/sluicegate/adapters\"",
        /// Directory of compiled components, made by the gateway and closed to everyone else. By default
        /// `$XDG_CACHE_HOME/sluicegate`, or `~/.cache/sluicegate`.
        cache: Option<PathBuf> = None; "\"/var/cache/sluicegate\"",
    }
}

section! {
    /// What clients may do. Every queue is bounded: a full one makes the stream that fills it wait.
    pub(crate) struct Limits {
        /// Bytes that messages of all streams together may hold while they have no verdict.
        memory_bytes: u64 = 64 * 1024 * 1024,
        /// Messages that one stream may have without a verdict; one destination may hold half of them.
        // Enough for two of the largest batches of a store while two more are on their way.
        stream_messages: NonZeroU32 = NonZeroU32::MIN.saturating_add(65_535),
        /// Bytes that one stream may have without a verdict.
        stream_bytes: u64 = 32 * 1024 * 1024,
        /// Scopes that one stream may have open.
        stream_scopes: NonZeroU32 = NonZeroU32::MIN.saturating_add(16_383),
        /// Bytes of one frame of a stream, and so of one message.
        frame_bytes: u64 = 4 * 1024 * 1024,
        /// Bytes of failures and receipts that one stream may leave unread before it is read no further.
        unread_result_bytes: u64 = 1024 * 1024,
        /// Milliseconds after which a stream that reads none of its results is ended.
        unread_results_timeout_ms: Duration = Duration::from_secs(30),
        /// Milliseconds from a message's acceptance to its verdict, for scopes that name no time.
        confirmation_timeout_ms: Duration = Duration::from_secs(30),
    }
}

section! {
    /// What is logged, to stderr.
    pub(crate) struct Log {
        /// error, warn, info, debug or trace, or a list by crate: "info,sluicegate_engine=debug".
        level: LogLevel = LogLevel("info".to_owned()),
        /// "text" for people, "json" for programs: one object a line.
        format: LogFormat = LogFormat::Text,
    }
}

section! {
    /// How the gateway ends on SIGTERM or SIGINT. A second signal ends it at once.
    pub(crate) struct Shutdown {
        /// Milliseconds in which accepted messages get their verdicts; new scopes are refused meanwhile.
        // Below the 30 s that Kubernetes grants between SIGTERM and SIGKILL.
        drain_timeout_ms: Duration = Duration::from_secs(25),
    }
}

section! {
    /// A broker or store. Its other keys are its adapter's own.
    pub(crate) struct ConnectionKeys {
        /// The adapter: the name of a file in `adapters.path` without `.wasm`, or a path to one.
        adapter: Option<String> = None; "\"sql\"",
        /// How much may be sent and not yet settled. Its unit is the adapter's: batches or messages, as
        /// `sluicegate adapters` shows. By default the adapter's.
        window: Option<NonZeroU32> = None; "1",
    }
}

section! {
    /// What applications publish to: a name, or a pattern in which `*` stands for any characters. A name
    /// wins over a pattern, a longer pattern over a shorter one. Its other keys are its adapter's own.
    pub(crate) struct DestinationKeys {
        /// The connection that it is on. May be left out where there is only one.
        connection: Option<String> = None; "\"main\"",
        /// "key": messages of one key are stored in the order in which they were published. "none": no
        /// such promise, and failed messages are sent again without regard to others.
        order: Order = Order::Key,
        /// Milliseconds that an idle destination waits for more messages before it sends. 0 costs nothing
        /// under load, when batches gather by themselves.
        linger_ms: Duration = Duration::ZERO,
        /// How often a message is sent at most when the failure may pass. 1: never again.
        attempts: NonZeroU32 = NonZeroU32::MIN.saturating_add(9),
        /// Milliseconds before the second attempt; doubled for each after it, with jitter.
        backoff_initial_ms: Duration = Duration::from_millis(50),
        /// Milliseconds between attempts at most.
        backoff_max_ms: Duration = Duration::from_secs(5),
        /// Bytes of one body at most, where the store would take more.
        max_body_bytes: Option<u64> = None; "1048576",
        /// Messages of one batch at most, where the store would take more.
        max_batch_messages: Option<NonZeroU32> = None; "1000",
        /// Milliseconds after which an idle destination is forgotten; its next message opens it again.
        idle_eviction_ms: Duration = Duration::from_secs(60),
    }
}

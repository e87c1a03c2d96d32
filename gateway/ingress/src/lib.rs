//! The gRPC face of the gateway: `sluicegate.v1.Gateway`, reflection and health, on TCP and on a
//! Unix socket.
//!
//! **Only this crate knows gRPC.** It turns frames into calls of the engine and the engine's events
//! into frames, and decides nothing about a message: which rows fail, when credit comes back and
//! when a batch is sent is the engine's business. What is decided here is the protocol: which frame
//! may follow which, how large it may be, and which status ends a stream.
//!
//! The path of a frame:
//!
//! ```text
//! HTTP/2 DATA -> wire (cuts gRPC messages) -> frame (waits until there is memory for one)
//!             -> decode (ClientFrame, bodies are slices)
//!             -> session (the reader: one task a stream) -> engine
//!     engine  -> answer (the response body, polled by HTTP/2 itself) -> HTTP/2 DATA
//! ```

#![forbid(unsafe_code)]

mod answer;
mod convert;
mod decode;
mod fault;
mod frame;
mod listen;
mod options;
mod server;
mod service;
mod session;
mod unary;
mod wire;

pub use listen::BindError;
pub use options::Options;
pub use server::{ServeError, Server};

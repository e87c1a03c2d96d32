//! When a frame is read: once there is memory for all of it, and then in good time.
//!
//! **Memory is found before a frame is read**, or a hundred clients that send at once would take a
//! hundred frames more than the gateway may have. What is kept for a frame is kept from others, so a
//! client that stops in the middle of one is ended.

use std::time::Duration;

use bytes::Bytes;
use sluicegate_engine::Stream;
use tokio::time::timeout;
use tonic::body::Body;

use crate::fault::Fault;
use crate::wire::Messages;

/// The next frame, when the engine lets it in; `None` when the client has ended its side.
pub(crate) async fn next(
    stream: &Stream,
    messages: &mut Messages<Body>,
    patience: Duration,
) -> Result<Option<Bytes>, Fault> {
    let Some(want) = messages.length().await? else {
        return Ok(None);
    };
    stream.ready(want).await;
    match timeout(patience, messages.message()).await {
        Ok(frame) => frame.map(Some),
        Err(_) => Err(Fault::FrameUnfinished {
            have: messages.come(),
            want,
            patience,
        }),
    }
}

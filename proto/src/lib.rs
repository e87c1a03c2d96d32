//! The gRPC contract of the gateway (`sluicegate/v1/gateway.proto`), compiled without protoc.
//!
//! Bodies and keys are [`bytes::Bytes`]: slices of the frame that carried them, never copies.

#![forbid(unsafe_code)]
#![allow(missing_debug_implementations, reason = "generated code")]

/// `sluicegate.v1`.
pub mod v1 {
    #![allow(
        clippy::all,
        clippy::needless_pass_by_value,
        clippy::large_futures,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )]
    #![allow(unreachable_pub, reason = "generated code")]
    tonic::include_proto!("sluicegate.v1");

    /// The encoded `FileDescriptorSet`, for gRPC reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/sluicegate.v1.bin"));
}

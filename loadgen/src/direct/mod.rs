//! What the gateway is measured against: the client crate that its driver uses, in this process,
//! with the same durability, at its best setting.

pub(crate) mod sqlite;

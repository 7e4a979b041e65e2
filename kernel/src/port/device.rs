//! Devices: long-lived drivers, such as tool servers, and the trait [`Device`].

use std::fmt;

use serde_json::Value;

use super::BoxFuture;

/// A driver that stays alive between calls. The device tree starts the driver on the first call, and again after the driver
/// ended.
pub trait Device: Send + Sync + 'static {
    /// Name of the device, such as `mcp.time`.
    fn name(&self) -> &str;

    /// Waits until a call wants the device.
    fn wanted(&self) -> BoxFuture<'_, ()>;

    /// Starts the device and serves calls until it ends. Dropping the future ends it.
    fn serve(&self) -> BoxFuture<'_, DeviceEnd>;

    /// Refuses calls at once, for the reason why the device ended, until [`Device::allow`].
    fn refuse(&self, why: &str, wait_ms: u64);

    /// Lets calls want the device again.
    fn allow(&self);

    /// Accepts, on behalf of the operator `by`, part of the device's offer. Durable on return; may block.
    ///
    /// # Errors
    ///
    /// Reason for the refusal, as a sentence without a full stop; nothing is changed.
    fn accept(&self, accepted: Value, by: &str) -> Result<(), String>;
}

/// The end of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEnd {
    /// True if the device did some work.
    pub served: bool,
    /// Reason for the end, as a sentence without a full stop.
    pub why: String,
}

impl fmt::Debug for dyn Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

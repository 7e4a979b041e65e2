//! Devices: their start, and what operators accept of them.

use std::sync::Arc;

use ostler_kernel::port::Device;
use serde_json::Value;

use crate::api::system::{StartError, System};
use crate::devices::Devices;

/// Why a device does not take what was accepted; nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// There is no such device.
    #[error("there is no device {0:?}")]
    Unknown(String),
    /// The device refuses it.
    #[error("{device}: {why}")]
    Refused {
        /// Name of the device.
        device: String,
        /// The reason.
        why: String,
    },
}

impl System {
    /// Starts the tree of devices, once; each device runs while calls want it, until [`System::shutdown`].
    ///
    /// # Errors
    ///
    /// The tree did not start.
    pub async fn start_devices(&self, devices: Vec<Arc<dyn Device>>) -> Result<(), StartError> {
        if !devices.is_empty() && self.devices.get().is_none() {
            let _ = self.devices.set(Devices::start(devices).await?);
        }
        Ok(())
    }

    /// Gives a device what the operator `by` accepted of it. Durable on return.
    ///
    /// # Errors
    ///
    /// See [`DeviceError`]; nothing is changed.
    pub async fn accept_on_device(&self, name: &str, accepted: Value, by: &str) -> Result<(), DeviceError> {
        let device = self.devices.get().and_then(|devices| devices.get(name)).cloned();
        let device = device.ok_or_else(|| DeviceError::Unknown(name.to_owned()))?;
        let by = by.to_owned();
        let taken = tokio::task::spawn_blocking(move || device.accept(accepted, &by)).await;
        let taken = taken.unwrap_or_else(|error| Err(error.to_string()));
        taken.map_err(|why| DeviceError::Refused { device: name.to_owned(), why })
    }
}

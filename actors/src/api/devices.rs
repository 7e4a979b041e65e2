//! Starts devices, and passes the decisions of operators to devices.

use std::sync::Arc;

use ostler_kernel::port::Device;
use serde_json::Value;

use crate::api::system::{StartError, System};
use crate::devices::Devices;

/// Error of [`System::accept_on_device`]; nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No device has the name.
    #[error("there is no device {0:?}")]
    Unknown(String),
    /// The device refuses the accepted value.
    #[error("{device}: {why}")]
    Refused {
        /// Name of the device.
        device: String,
        /// The reason.
        why: String,
    },
}

impl System {
    /// Starts the supervision tree of the devices, once; later calls do nothing. Each device runs while calls need the device,
    /// until [`System::shutdown`].
    ///
    /// # Errors
    ///
    /// The tree does not start.
    pub async fn start_devices(&self, devices: Vec<Arc<dyn Device>>) -> Result<(), StartError> {
        if !devices.is_empty() {
            self.devices.get_or_try_init(|| Devices::start(devices)).await?;
        }
        Ok(())
    }

    /// Passes to a device the value that the operator `by` accepted. Durable on return.
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

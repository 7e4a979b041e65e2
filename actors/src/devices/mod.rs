//! Supervision tree of the devices: one keeper actor for each device keeps the device running while calls need the device.

mod keeper;

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::port::Device;
use ostler_supervisor::{
    ChildSpec, Intensity, StartError, Strategy, Supervisor, SupervisorRef, SupervisorSpec,
};

use keeper::Keeper;

/// Most restarts of all keepers within [`PERIOD`]. Only a panic restarts a keeper: a device that ends is no failure of the keeper.
const RESTARTS: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// The devices of a system, and their supervision tree.
pub(crate) struct Devices {
    pub(crate) tree: SupervisorRef,
    all: Vec<Arc<dyn Device>>,
}

impl Devices {
    pub(crate) async fn start(devices: Vec<Arc<dyn Device>>) -> Result<Devices, StartError> {
        Ok(Devices { tree: start(devices.clone()).await?, all: devices })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Device>> {
        self.all.iter().find(|device| device.name() == name)
    }
}

/// Starts a keeper for each device; a failed keeper is restarted alone.
async fn start(devices: Vec<Arc<dyn Device>>) -> Result<SupervisorRef, StartError> {
    let keeper = |device: Arc<dyn Device>| {
        let name = device.name().to_owned();
        ChildSpec::actor(name, || Keeper, move || Arc::clone(&device))
    };
    let mut spec = SupervisorSpec::new(Strategy::OneForOne, devices.into_iter().map(keeper).collect());
    spec.intensity = Intensity::new(RESTARTS, PERIOD);
    Supervisor::start(spec).await
}

//! What a cage allows, decided before the program starts. The helper enforces it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use ostler_kernel::event::Failure;
use ostler_kernel::id::Digest;
use ostler_kernel::lineage;
use ostler_kernel::plan::Effect;
use ostler_kernel::port::CageRung;
use serde::{Deserialize, Serialize};

use super::config::{CallLimits, SandboxConfig};
use super::helper::HELPER_COMMAND;
use super::hidden::{Hidden, between, data_folders};
use super::place::Place;
use super::presence::Presence;
use super::resolver::Resolver;
use super::rungs::{Reached, reached};
use super::workspaces::{Workspaces, is_closed, places};
use super::{paths, rungs};
use crate::tool::DataFolder;
use crate::tool::tool_spec::{structural, transient};

/// Makes the cages of calls.
#[derive(Debug, Clone)]
pub(crate) struct Cages {
    pub(super) config: SandboxConfig,
    pub(super) write: Vec<PathBuf>,
    pub(super) hidden: Hidden,
    /// What was noted last of where programs write.
    noted: Arc<Mutex<Option<Noted>>>,
    pub(super) enabled: bool,
}

impl Cages {
    /// Digest of the configuration of the cages. Paths that the process itself sets are no part of it.
    pub(crate) fn digest(&self) -> Digest {
        let SandboxConfig {
            minimum,
            read,
            bubblewrap,
            limits,
            helper: _,
            hide: _,
            freeze: _,
            pinned: _,
            written: _,
            workspaces: _,
        } = &self.config;
        let parts = (self.enabled, minimum, read, bubblewrap, limits, &self.write);
        lineage::hash("ostler.cage.1", &[format!("{parts:?}").as_bytes()])
    }
}

/// Folders, and configuration files that programs cannot change.
type Noted = (Vec<PathBuf>, BTreeSet<PathBuf>, BTreeSet<PathBuf>);

/// The configuration of a workspace or a data folder.
pub(super) const CONFIG_NAME: &str = "ostler.toml";

/// A call that wants a cage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CagedCall<'a> {
    pub workspace: &'a Path,
    /// The program may change the workspace.
    pub writes: bool,
    pub impact: u8,
    pub effect: Effect,
}

/// What a helper becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// The maker of a process namespace, in which a copy of it becomes the program.
    Around,
    /// The helper in the namespaces of bubblewrap, which compares the shown folders with these places, sets the limits and becomes the
    /// program.
    Within(Vec<Place>),
    /// The program.
    Program,
}

/// The cage of one call, as the helper gets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CageSpec {
    pub(super) rung: CageRung,
    pub(super) role: Role,
    /// The helper is in a user namespace of its own.
    pub(super) is_own_user: bool,
    /// The program that becomes the caged one.
    #[serde(skip)]
    pub(super) helper: PathBuf,
    pub(super) bubblewrap: PathBuf,
    /// The process that the program must not outlive.
    pub(super) parent: u32,
    /// Begins each report of the helper.
    pub(super) nonce: String,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// Links that lead to what is shown, with what they say.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    /// Folders and files that are not there for the program.
    pub(super) hide: Vec<PathBuf>,
    /// Folders that the program may change and not move away.
    pub(super) pin: Vec<PathBuf>,
    /// Folders and files that the program may not change, though they lie where it writes.
    pub(super) freeze: Vec<PathBuf>,
    pub(super) network: bool,
    /// The program only looks: it changes nothing, the modes of files neither.
    pub(super) observes: bool,
    pub(super) limits: CallLimits,
    /// `cgroup.procs` of the groups of the call.
    pub(super) groups: Vec<PathBuf>,
    /// Files of the marks that a program runs; the maker of the process namespace holds them too.
    pub(super) marks: Vec<PathBuf>,
    /// Lasts as long as the program.
    #[serde(skip)]
    pub(super) presence: Option<Arc<Presence>>,
}

impl Cages {
    pub(crate) fn new(
        config: &SandboxConfig,
        write: &[PathBuf],
        enabled: bool,
        data: Option<&DataFolder>,
    ) -> Cages {
        let data = data.map(|data| data.path().to_owned()).into_iter();
        let hidden = Hidden::of(data.chain(config.hide.iter().cloned()));
        Cages { config: config.clone(), write: write.to_vec(), hidden, noted: Arc::default(), enabled }
    }

    /// The cage of a call; `None`: it runs without one, which only the operator or a person can want. Blocks at the first call of a
    /// process, which tries the rungs.
    pub(crate) fn cage(&self, call: CagedCall<'_>) -> Result<Option<CageSpec>, Failure> {
        if !self.enabled {
            rungs::warn_uncaged("sandbox = false in [tools.shell]");
            return Ok(None);
        }
        self.guard_maker("helper", self.config.helper.as_deref(), call)?;
        let Reached { rung, helper, bubblewrap, ends_all, missing, is_short, is_killed } =
            reached(&self.config);
        if is_killed {
            return Err(structural(format!(
                "no cage can be made, so no program starts: a signal ended each trial of its helper ({missing}); look for what ends it, \
                 such as a limit on memory, and start this process again"
            )));
        }
        if bubblewrap.is_some() {
            self.guard_maker("bubblewrap", self.config.bubblewrap.as_deref(), call)?;
        }
        if is_short {
            return Err(transient(format!("no cage can be made now, so no program starts: {missing}")));
        }
        if rung < self.config.minimum && call.impact < 2 {
            return Err(structural(format!(
                "no cage for programs: [sandbox] minimum is {}, and this machine gives {rung}: {missing}; `ostler doctor` says what \
                 helps; minimum = \"none\" runs programs without a cage",
                self.config.minimum
            )));
        }
        let Some(helper) = helper.filter(|_| rung > CageRung::None) else {
            rungs::warn_uncaged(&missing);
            return Ok(None);
        };
        if let Some(workspaces) = self.config.workspaces.as_ref().filter(|_| call.impact > 0) {
            // Noting tells of a failure.
            let _ = workspaces.make_folder();
        }
        // Before the cage is decided: a data folder that is made later sees the mark.
        let presence = self.enter(call)?;
        let mut spec = self.spec(call, rung, helper, bubblewrap.unwrap_or_default())?;
        spec.marks = presence.as_ref().map(|presence| presence.files()).unwrap_or_default();
        spec.presence = presence;
        if !spec.write.is_empty() {
            self.note(&spec)?;
        }
        if ends_all {
            spec.role = Role::Around;
        }
        spec.nonce = format!("ostler-sandbox-{}", random_word()?);
        Ok(Some(spec))
    }

    /// Refuses a program that makes cages where steps write: another one in its place would run without a cage. The answer of
    /// [`reached`] is older than the last step.
    fn guard_maker(&self, key: &str, maker: Option<&Path>, call: CagedCall<'_>) -> Result<(), Failure> {
        let Some(maker) = maker else { return Ok(()) };
        let written = Resolver::new(paths::writable(call.workspace, &self.write).into_iter(), None);
        let is_noted = self.config.workspaces.as_ref().is_some_and(|notes| notes.is_written(maker));
        let is_written = |places: Vec<PathBuf>| places.iter().any(|place| written.is_written(place));
        if is_noted || places(maker).is_ok_and(is_written) {
            return Err(structural(format!(
                "no cage for programs: {} lies where steps write, so another program may stand in its place; name one elsewhere in \
                 [sandbox] {key}",
                maker.display()
            )));
        }
        Ok(())
    }

    /// Marks where the program writes, until it ends; `None` if nothing is noted.
    fn enter(&self, call: CagedCall<'_>) -> Result<Option<Arc<Presence>>, Failure> {
        let Some(workspaces) = &self.config.workspaces else { return Ok(None) };
        let written = match (call.impact, call.writes) {
            (0, _) => return Ok(None),
            (_, false) => self.write.clone(),
            (_, true) => paths::writable(call.workspace, &self.write),
        };
        match workspaces.enter(&written) {
            Ok(presence) => Ok(Some(Arc::new(presence))),
            // Noting tells of it.
            Err(error) if is_closed(&error) => Ok(None),
            Err(error) => Err(transient(format!("cannot mark that a program runs: {error}"))),
        }
    }

    /// Notes where a program will write. Blocks at the first call in a place.
    fn note(&self, spec: &CageSpec) -> Result<(), Failure> {
        let Some(workspaces) = &self.config.workspaces else { return Ok(()) };
        // What has another name can be changed by that.
        let is_file = |file: &&PathBuf| {
            file.symlink_metadata().is_ok_and(|found| found.is_file() && found.nlink() == 1)
        };
        let mut kept: BTreeSet<PathBuf> = spec.freeze.iter().filter(is_file).cloned().collect();
        kept.extend(spec.hide.iter().map(|folder| folder.join(CONFIG_NAME)));
        // A link could be replaced, whatever it leads to.
        let is_folder = |folder: &&PathBuf| folder.symlink_metadata().is_ok_and(|found| found.is_dir());
        let data = spec.hide.iter().filter(is_folder).cloned().collect();
        let now = (spec.write.clone(), kept, data);
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.as_ref() != Some(&now) {
            workspaces.note(&now.0, &now.1, &now.2).map_err(|error| {
                transient(format!("cannot note that programs run in {}: {error}", spec.write[0].display()))
            })?;
            *noted = Some(now);
        }
        Ok(())
    }

    fn spec(
        &self,
        call: CagedCall<'_>,
        rung: CageRung,
        helper: PathBuf,
        bubblewrap: PathBuf,
    ) -> Result<CageSpec, Failure> {
        let CagedCall { workspace, writes, impact, effect } = call;
        // The path of a run has no links. One that is there now would lead the cage to another folder than the call.
        let workspace = match workspace.canonicalize() {
            Ok(found) if found != workspace => {
                return Err(structural(format!(
                    "{} is no longer the folder of the run: a link has come in its place, or in that of a folder on the way, so no program \
                     starts; put the folder back",
                    workspace.display()
                )));
            }
            found => found.unwrap_or_else(|_| workspace.to_owned()),
        };
        let mut resolver = Resolver::new(
            paths::writable(&workspace, &self.write).into_iter(),
            self.config.workspaces.clone(),
        );
        let more: Vec<PathBuf> = self.write.iter().filter_map(|path| resolver.find(path)).collect();
        let write = match (impact, writes) {
            (0, _) => Vec::new(),
            (_, false) => more,
            (_, true) => paths::writable(&workspace, &more),
        };
        let mut users = self.users(&mut resolver);
        users.extend(self.repository(&workspace));
        let mut read = Cages::system();
        read.extend(users.iter().cloned());
        read.push(workspace.clone());
        let shown: Vec<PathBuf> =
            read.iter().chain(&write).filter_map(|path| path.canonicalize().ok()).collect();
        let is_shown = |path: &PathBuf| shown.iter().any(|shown| path.starts_with(shown));
        let mut hide = self.hidden.places()?;
        hide.extend(own_data(&workspace));
        hide.extend(data_folders(std::iter::once(&workspace).chain(&write)));
        // Each by itself: a large one takes nothing from the others.
        hide.extend(users.iter().flat_map(|shown| data_folders(std::iter::once(shown))));
        // Steps may have made many that look like one, beyond what is looked through.
        let known = self.config.workspaces.iter().flat_map(Workspaces::known_data);
        hide.extend(known.filter(|data| data.is_dir() && is_without_links(data)));
        hide.retain(is_shown);
        hide.sort();
        hide.dedup_by(|inner, outer| inner.starts_with(outer));
        let mut freeze = vec![workspace.join(CONFIG_NAME), workspace.join(".git/hooks")];
        let named = self.config.freeze.iter().chain(&self.config.pinned);
        freeze.extend(named.filter_map(|path| path.canonicalize().ok()));
        let is_within = |path: &PathBuf, folders: &[PathBuf]| folders.iter().any(|it| path.starts_with(it));
        // A link in such a place would freeze, and show, what it leads to.
        freeze.retain(|path| is_within(path, &write) && !is_within(path, &hide) && is_without_links(path));
        freeze.sort();
        freeze.dedup();
        let mut pin: Vec<PathBuf> = between(&write, &hide).chain(between(&write, &freeze)).collect();
        // Outer ones first: a mount covers what was mounted beneath its place before.
        pin.sort();
        pin.dedup();
        Ok(CageSpec {
            rung,
            role: Role::Program,
            is_own_user: false,
            helper,
            bubblewrap,
            parent: std::process::id(),
            nonce: String::new(),
            read,
            write,
            links: resolver.into_links(),
            hide,
            pin,
            freeze,
            network: effect == Effect::External,
            observes: impact == 0,
            limits: self.config.limits,
            groups: Vec::new(),
            marks: Vec::new(),
            presence: None,
        })
    }
}

impl CageSpec {
    pub(crate) fn rung(&self) -> CageRung {
        self.rung
    }

    /// The mark of the running program that other processes see.
    pub(crate) fn presence(&self) -> Option<Arc<Presence>> {
        self.presence.clone()
    }

    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    pub(crate) fn limits(&self) -> CallLimits {
        self.limits
    }

    pub(crate) fn allow_writing(mut self, path: &Path) -> CageSpec {
        // A cage opens no links.
        self.write.push(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        self
    }

    /// True if the program only looks.
    pub(crate) fn observes(&self) -> bool {
        self.observes
    }

    /// Which control groups the program joins. What it starts ends with them, as long as this process lives to say so: the process
    /// namespace ends it otherwise. A program that only looks does without the namespace, which costs two more processes: it is one that
    /// the table of programs knows, and changes nothing if it is left.
    pub(crate) fn in_groups(mut self, groups: Vec<PathBuf>) -> CageSpec {
        if self.observes && !groups.is_empty() {
            self.role = Role::Program;
        }
        self.groups = groups;
        self
    }

    /// True if a process between the caller and the program tells the program's end by a signal as a status above 128.
    pub(crate) fn tells_signals_as_shells_do(&self) -> bool {
        self.rung == CageRung::Bubblewrap || self.role == Role::Around
    }

    /// The command that starts `file` in the cage.
    pub(crate) fn command(&self, file: &Path, argv: &[String]) -> Result<Command, Failure> {
        self.command_by(&self.helper, file, argv).map_err(structural)
    }

    pub(super) fn command_by(
        &self,
        helper: &Path,
        file: &Path,
        argv: &[impl AsRef<OsStr>],
    ) -> Result<Command, String> {
        let mut command = Command::new(helper);
        let spec = serde_json::to_string(self);
        let spec = spec.map_err(|error| match self.unreadable() {
            Some(path) => format!("the name of {} is not UTF-8: rename or remove it", path.display()),
            None => format!("the cage of the program: {error}"),
        })?;
        command.arg(HELPER_COMMAND).arg(spec).arg(file).args(argv);
        Ok(command)
    }
}

impl CageSpec {
    /// A path that cannot be described.
    fn unreadable(&self) -> Option<&PathBuf> {
        let lists = [&self.read, &self.write, &self.hide, &self.pin, &self.freeze];
        lists.into_iter().flatten().find(|path| path.to_str().is_none())
    }
}

/// The folder in a workspace that holds its data, unless it is named otherwise.
fn own_data(workspace: &Path) -> Option<PathBuf> {
    Some(workspace.join(".ostler")).filter(|data| data.is_dir() && is_without_links(data))
}

/// True if a path leads through no link to what is there.
fn is_without_links(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|found| found == path)
}

/// A word that no program can guess.
pub(crate) fn random_word() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|error| transient(format!("cannot read /dev/urandom: {error}")))?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

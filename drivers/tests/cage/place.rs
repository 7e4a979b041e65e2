//! A workspace with a data folder, and an outside that a program should not reach.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use ostler_drivers::cage::{SandboxConfig, reached};
use ostler_drivers::tool::{DataFolder, ToolConfig, builtin};
use ostler_kernel::gate::{
    Call, CallLimits, Egress, GatePolicy, GatedTool, Provenance, Scope, Spent, Verdict, decide,
};
use ostler_kernel::id::Digest;
use ostler_kernel::port::{CageRung, CallContext, Tool, ToolResult};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::attempts::{Attempt, Proof};

pub(crate) const SECRET: &str = "ostler-test-secret-7f3a";

/// Names another place for folders, for tests that run as another user.
const ROOM: &str = "OSTLER_TEST_ROOM";

/// Names the program `bwrap` for the tests of its rung, where the system has none.
const BUBBLEWRAP: &str = "OSTLER_TEST_BUBBLEWRAP";

fn room() -> PathBuf {
    std::env::var_os(ROOM).map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from)
}

/// The configuration of a rung.
pub(crate) fn sandbox(rung: CageRung) -> SandboxConfig {
    let mut config = SandboxConfig {
        helper: Some(env!("CARGO_BIN_EXE_ostler-sandbox").into()),
        ..SandboxConfig::default()
    };
    config.bubblewrap = match rung {
        CageRung::Landlock => Some("/nonexistent".into()),
        CageRung::Bubblewrap | CageRung::None => std::env::var_os(BUBBLEWRAP).map(PathBuf::from),
    };
    config
}

/// Whether this machine has the rung; says so if not.
pub(crate) fn works(rung: CageRung) -> bool {
    let found = reached(&sandbox(rung));
    if found.rung != rung {
        eprintln!("skipped: {rung} does not work here: {}", found.missing);
    }
    found.rung == rung
}

/// Runs a test of this binary again as another user than root, who has no control groups here, as on most machines.
pub(crate) fn as_another_user(test: &str) {
    let room = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::set_permissions(room.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let home = room.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let settings = "[user]\nname = a\nemail = a@b\n";
    for (name, text) in [(".profile", SECRET), ("notes", SECRET), (".gitconfig", settings)] {
        std::fs::write(home.join(name), text).unwrap();
    }
    std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    match command.env(ROOM, room.path()).env("HOME", &home).current_dir("/").output() {
        Ok(output) if output.stderr.starts_with(b"setpriv:") => {
            let told = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: this user cannot become another: {told}");
        }
        Ok(output) => {
            let told = String::from_utf8_lossy(&output.stderr);
            // A rung that is missing; which attempts work for such a user without a cage is no matter.
            told.lines()
                .filter(|line| line.contains("does not work here: "))
                .for_each(|line| eprintln!("{line}"));
            let ran = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && ran.contains("1 passed"), "{test}: {ran}{told}");
        }
        Err(error) => eprintln!("skipped: setpriv: {error}"),
    }
}

pub(crate) struct Place {
    folder: TempDir,
    out: TempDir,
    /// A file outside of both, as other programs leave them in the folder for temporary files.
    temporary: tempfile::NamedTempFile,
    shared_memory: PathBuf,
    rung: CageRung,
    victim: Child,
    listeners: Vec<UnixListener>,
    datagrams: Vec<UnixDatagram>,
    /// A segment of memory that this user's processes share; empty if there is none.
    segment: String,
    udp: UdpSocket,
    tcp: TcpListener,
    /// A file with the secret that programs inherit.
    inherited: File,
}

pub(crate) struct Made {
    pub got_out: bool,
    pub shown: String,
}

impl Place {
    pub(crate) fn new(rung: CageRung) -> Place {
        let (folder, out) = (tempfile::tempdir_in(room()).unwrap(), tempfile::tempdir_in(room()).unwrap());
        let ws = folder.path().join("ws");
        let data = ws.join(".ostler");
        std::fs::create_dir_all(data.join("journal")).unwrap();
        std::fs::create_dir(ws.join("sub")).unwrap();
        let (other, key) = (ws.join("inner/.ostler"), ws.join(".config/ostler"));
        let shown = folder.path().join("shown/project/.ostler");
        for data in [&other, &shown] {
            std::fs::create_dir_all(data.join("journal")).unwrap();
        }
        std::fs::create_dir_all(&key).unwrap();
        for (path, text) in [
            (data.join("lock"), SECRET),
            (data.join("format"), ""),
            (out.path().join("secret"), SECRET),
            (ws.join("ostler.toml"), ""),
            (ws.join("tracked"), "text\n"),
            (other.join("lock"), SECRET),
            (other.join("format"), ""),
            (shown.join("lock"), SECRET),
            (shown.join("format"), ""),
            (key.join("ostler-operator.key"), SECRET),
        ] {
            std::fs::write(path, text).unwrap();
        }
        symlink(out.path().join("secret"), ws.join("link")).unwrap();
        for line in ["init -q", "add tracked", "-c user.name=a -c user.email=a@b commit -q -m first"] {
            let git = Command::new("git").current_dir(&ws).args(line.split(' ')).status().unwrap();
            assert!(git.success());
        }
        let victim = Command::new("sleep")
            .arg("1000")
            .env("SECRET", SECRET)
            .current_dir(out.path())
            .stdin(std::fs::File::open(out.path().join("secret")).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from_abstract_name(name_of(&folder)).unwrap();
        let listeners = vec![
            UnixListener::bind(out.path().join("control.sock")).unwrap(),
            UnixListener::bind(data.join("control.sock")).unwrap(),
            UnixListener::bind(ws.join("sub/control.sock")).unwrap(),
            UnixListener::bind_addr(&address).unwrap(),
        ];
        listeners.iter().for_each(|it| it.set_nonblocking(true).unwrap());
        let datagrams =
            [out.path(), &ws.join("sub")].map(|it| UnixDatagram::bind(it.join("datagrams")).unwrap()).into();
        let mut datagrams: Vec<UnixDatagram> = datagrams;
        // Each kind of socket has abstract names of its own.
        datagrams.push(UnixDatagram::bind_addr(&address).unwrap());
        datagrams.iter().for_each(|it| it.set_nonblocking(true).unwrap());
        let segment = Command::new("ipcmk").args(["-M", "4096"]).output();
        let segment = segment.map_or_else(|_| String::new(), |it| String::from_utf8(it.stdout).unwrap());
        let segment = segment.split_whitespace().next_back().unwrap_or_default().to_owned();
        let (udp, tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        udp.set_nonblocking(true).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let temporary = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(temporary.path(), SECRET).unwrap();
        // Not every file system has attributes; the attempt is skipped then.
        let _ = rustix::fs::setxattr(
            out.path().join("secret"),
            "user.note",
            SECRET.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        );
        let inherited = File::open(out.path().join("secret")).unwrap();
        rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
        let shared_memory = Path::new("/dev/shm").join(name_of(&folder));
        Place {
            folder,
            out,
            temporary,
            shared_memory,
            rung,
            victim,
            listeners,
            datagrams,
            segment,
            udp,
            tcp,
            inherited,
        }
    }

    pub(crate) fn rung(&self) -> CageRung {
        self.rung
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn at(&self, path: &str) -> PathBuf {
        match path.split_once('/') {
            _ if path == "shm" => self.shared_memory.clone(),
            Some(("out", rest)) => self.out.path().join(rest),
            _ if path == "out" => self.out.path().to_owned(),
            _ => self.folder.path().join(path),
        }
    }

    /// Makes an attempt in the cage of this place.
    pub(crate) fn make(self, attempt: &Attempt) -> Made {
        let before = match attempt.proof {
            Proof::Changed(path) => std::fs::read(self.at(path)).ok(),
            _ => None,
        };
        let script = format!("{}{}", self.settings(), attempt.script);
        let ended = self.call(&script, attempt.impact);
        let shown = match ended {
            Ok(value) => value.to_string(),
            Err(failure) => format!("{}: {}", failure.category, failure.message),
        };
        let got_out = shown.contains("ESCAPED")
            || shown.contains(SECRET)
            || match attempt.proof {
                Proof::Said => false,
                Proof::Changed(path) => std::fs::read(self.at(path)).ok() != before,
                Proof::Heard => self.heard(),
                Proof::Opened(path) => {
                    std::fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o777 == 0o777
                }
            };
        Made { got_out, shown }
    }

    fn settings(&self) -> String {
        let (udp, tcp) = (self.udp.local_addr().unwrap().port(), self.tcp.local_addr().unwrap().port());
        let all = [
            ("OUT", self.out.path().display().to_string()),
            ("VICTIM", self.victim.id().to_string()),
            ("HOLDER", std::process::id().to_string()),
            ("TMP_SECRET", self.temporary.path().display().to_string()),
            ("SHM", self.shared_memory.display().to_string()),
            ("ABSTRACT", name_of(&self.folder)),
            ("SEGMENT", self.segment.clone()),
            ("UDP", udp.to_string()),
            ("TCP", tcp.to_string()),
            ("INHERITED", self.inherited.as_raw_fd().to_string()),
            // The first `python3` of a search path may be a script that looks for another.
            ("PATH", "/usr/bin:/bin:$PATH".to_owned()),
        ];
        all.iter().map(|(name, value)| format!("export {name}={value}; ")).collect()
    }

    fn heard(&self) -> bool {
        let is_nothing = |error: std::io::Error| {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            false
        };
        let mut heard =
            self.listeners.iter().map(|it| it.accept().map_or_else(is_nothing, |_| true)).collect::<Vec<_>>();
        heard.extend(self.datagrams.iter().map(|it| it.recv(&mut [0; 8]).map_or_else(is_nothing, |_| true)));
        heard.push(self.udp.recv(&mut [0; 8]).map_or_else(is_nothing, |_| true));
        heard.push(self.tcp.accept().map_or_else(is_nothing, |_| true));
        heard.contains(&true)
    }

    /// Calls `shell.run` with a script that the operator gave this impact; one of impact 2 has the network.
    pub(crate) fn call(&self, script: &str, impact: u8) -> ToolResult {
        self.call_with(sandbox(self.rung), script, impact)
    }

    pub(crate) fn call_with(&self, mut sandbox: SandboxConfig, script: &str, impact: u8) -> ToolResult {
        sandbox.read.push(self.folder.path().join("shown"));
        call(&self.ws(), self.rung, sandbox, script, impact)
    }

    /// The files to which an approval of a call is bound, with this data folder in the workspace or one elsewhere.
    pub(crate) fn bound(&self, data: Option<&str>, argv: &[&str]) -> Vec<String> {
        let mut config = ToolConfig { sandbox: sandbox(self.rung), ..ToolConfig::default() };
        config.sandbox.hide = vec![self.ws().join(".config/ostler")];
        let data = data.map(|data| DataFolder::of(&self.ws().join(data)).unwrap());
        let tools = builtin(&config, data.as_ref());
        let tool = tools.iter().find(|tool| tool.spec().name == "shell.run").unwrap();
        let params = json!({"argv": argv}).as_object().unwrap().clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let found = runtime.block_on(tool.named_files(&params, self.ws().as_path().into()));
        found.into_iter().filter(|file| file.unbound.is_none()).map(|file| file.path).collect()
    }

    /// The folder outside of the workspace.
    pub(crate) fn out(&self) -> &Path {
        self.out.path()
    }
}

/// Calls `shell.run` in a workspace with a data folder.
pub(crate) fn call(
    ws: &Path,
    rung: CageRung,
    mut sandbox: SandboxConfig,
    script: &str,
    impact: u8,
) -> ToolResult {
    let effect = ["read", "write", "external"][usize::from(impact)];
    let text = format!(
        "[shell]\nsandbox = {}\nallow = [{{argv = [\"sh\", \"*\"], impact = {impact}, effect = {effect:?}}}]",
        rung > CageRung::None
    );
    let mut config: ToolConfig = toml::from_str(&text).unwrap();
    let home = std::env::home_dir().unwrap();
    // What cargo needs besides the folder of its programs.
    sandbox.read.extend([home.join(".rustup"), home.join(".cargo")].into_iter().filter(|path| path.exists()));
    sandbox.hide = vec![ws.join(".config/ostler")];
    config.sandbox = sandbox;
    let data = DataFolder::of(&ws.join(".ostler")).unwrap();
    let tools = builtin(&config, Some(&data));
    let tool = tools.iter().find(|tool| tool.spec().name == "shell.run").unwrap().clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let permit = permit(tool.clone(), json!({"argv": ["sh", "-c", script]}), ws.to_str().unwrap());
    let context = CallContext::without_log(Arc::from(ws), 60_000);
    runtime.block_on(async move { tool.call(permit, context).await })
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = std::fs::remove_file(&self.shared_memory);
        let _ = Command::new("ipcrm").args(["-m", &self.segment]).stderr(Stdio::null()).status();
    }
}

fn name_of(folder: &TempDir) -> String {
    format!("ostler-test{}", folder.path().file_name().unwrap().to_string_lossy().replace('.', "-"))
}

/// The gate's verdict for the highest intent.
fn permit(tool: Arc<dyn Tool>, params: Value, workspace: &str) -> ostler_kernel::gate::Permit {
    let name = tool.spec().name.clone();
    let scope = Scope { tools: [(name.clone(), None)].into() };
    let policy = GatePolicy {
        scopes: [("all".to_owned(), scope)].into(),
        ceiling: 2,
        epoch: 1,
        limits: CallLimits { max_depth: 64, max_bytes: 64 << 20 },
        egress: Egress::default(),
        ..GatePolicy::default()
    };
    let gated = GatedTool::new(tool).unwrap();
    let params = params.as_object().unwrap().clone().into();
    let call = Call {
        tool: Some(&gated),
        name: &name,
        params,
        floor: 0,
        intent: 2,
        scope: "all".into(),
        workspace: Some(workspace),
        provenance: Provenance::PLAN,
        spent: &Spent::default(),
    };
    match decide(call, Digest([1; 32]), &policy) {
        Verdict::Allowed { permit, .. } => permit,
        Verdict::Denied(denial) => panic!("{}: {}", denial.code, denial.operator),
    }
}

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};

use super::disks::mounts;
use super::*;

/// A folder with the files of `/proc`, each given as name and text.
fn proc_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| put(root.path(), name, text));
    root
}

fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn read(root: &Path, topics: &[Topic]) -> ToolResult {
    let cancel = CancelFlag::default();
    facts(&topics.iter().copied().collect(), &Proc { root: root.to_owned(), cancel: &cancel })
}

fn check(files: &[(&str, &str)], topic: Topic, expected: Expect) {
    let root = proc_of(files);
    let shown = match read(root.path(), &[topic]) {
        Ok(value) => value.to_string(),
        Err(failure) => format!("{}: {}", failure.category, failure.message),
    };
    expected.assert_eq(&shown.replace(root.path().to_str().unwrap(), "PROC"));
}

const KERNEL: [(&str, &str); 7] = [
    ("stat", "cpu  1 2\ncpu0 1 2\ncpu1 1 2\ncpus 1\nintr 5\n"),
    ("loadavg", "0.50 1.00 2.25 1/100 42\n"),
    ("uptime", "12345.67 100.00\n"),
    ("sys/kernel/ostype", "Linux\n"),
    ("sys/kernel/osrelease", "6.1.0\n"),
    ("sys/kernel/version", "#1 SMP\n"),
    ("sys/kernel/hostname", "host\n"),
];

#[test]
fn kernel_and_memory_are_read_from_their_files() {
    let root = proc_of(&KERNEL);
    let mut kernel = read(root.path(), &[Topic::Kernel]).unwrap();
    kernel["kernel"].as_object_mut().unwrap().remove("architecture");
    expect![[r##"{"kernel":{"host":"host","load":[0.5,1.0,2.25],"processors":2,"release":"6.1.0","system":"Linux","uptime_s":12345,"version":"#1 SMP"}}"##]].assert_eq(&kernel.to_string());
    let memory =
        "MemTotal:       16 kB\nMemFree:  4 kB\nMemAvailable:   8 kB\nSwapTotal: 18446744073709551615 kB\n";
    check(
        &[("meminfo", memory)],
        Topic::Memory,
        expect![[
            r#"{"memory":{"available_bytes":8192,"free_bytes":4096,"swap_free_bytes":0,"swap_total_bytes":9007199254740991,"total_bytes":16384}}"#
        ]],
    );
    check(
        &[],
        Topic::Memory,
        expect![
            "structural: PROC/meminfo: No such file or directory (os error 2); give `topics` without the one that needs the file"
        ],
    );
}

#[test]
fn waiting_sockets_are_ports() {
    let head =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
    let line = |address: &str, state: &str, uid: u32| {
        format!("   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid} 0 1 1\n")
    };
    // The words of an address are in the machine's order of bytes.
    let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
    let loopback6 = format!("{:024}{:08X}", 0, u32::from_ne_bytes([0, 0, 0, 1]));
    let tcp = [
        head,
        &line(&format!("{loopback}:1F90"), "0A", 7),
        &line(&format!("{loopback}:1F90"), "0A", 7),
        &line("00000000:0016", "0A", 0),
        &line("00000000:0017", "01", 0),
        "   0: nonsense\n",
    ]
    .concat();
    let udp = [head, &line("00000000:0035", "07", 0), &line("00000000:0036", "01", 0)].concat();
    let tcp6 = [head, &line(&format!("{loopback6}:0050"), "0A", 0)].concat();
    check(
        &[("net/tcp", &tcp), ("net/tcp6", &tcp6), ("net/udp", &udp)],
        Topic::Ports,
        expect![[
            r#"{"ports":{"items":[{"address":"0.0.0.0","port":22,"protocol":"tcp","uid":0},{"address":"127.0.0.1","port":8080,"protocol":"tcp","uid":7},{"address":"::1","port":80,"protocol":"tcp","uid":0},{"address":"0.0.0.0","port":53,"protocol":"udp","uid":0}],"total":4,"truncated":false}}"#
        ]],
    );
}

#[test]
fn mounts_are_file_systems() {
    let text = "1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
                2 1 8:1 /etc /etc/hosts rw - ext4 /dev/sda1 rw\n\
                3 1 8:2 / /with\\040space ro,noatime shared:1 master:2 - xfs /dev/b\\134c rw\n\
                4 1 0:9 / /auto rw - autofs systemd-1 rw\n\
                nonsense\n5 1 - x\n";
    expect![[r#"
        [
            Mount {
                path: "/",
                kind: "ext4",
                source: "/dev/sda1",
                read_only: false,
            },
            Mount {
                path: "/with space",
                kind: "xfs",
                source: "/dev/b\\c",
                read_only: true,
            },
        ]"#]]
    .assert_eq(&format!("{:#?}", mounts(text)));
    // A remote file system is never asked for its size.
    check(
        &[(
            "self/mountinfo",
            "1 0 0:1 / /no/such/place rw - nfs4 server:/x rw\n2 0 0:2 / /no/such/other rw - ext4 /dev/x rw",
        )],
        Topic::Disks,
        expect![[
            r#"{"disks":{"items":[{"path":"/no/such/place","read_only":false,"source":"server:/x","type":"nfs4"}],"total":1,"truncated":false}}"#
        ]],
    );
}

fn status(uid: u32, memory_kib: usize) -> String {
    format!(
        "Name:\tx y\nState:\tS (sleeping)\nPPid:\t1\nUid:\t{uid}\t0\t0\t0\nVmRSS:\t {memory_kib} kB\nThreads:\t3\n"
    )
}

#[test]
fn processes_come_by_memory_and_users_by_id() {
    let files = [
        ("1/status", status(0, 1)),
        ("20/status", status(1_000, 9)),
        ("3/status", status(0, 9)),
        ("4/status", String::new()),
        ("self/status", status(5, 5)),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    check(
        &files,
        Topic::Users,
        expect![[
            r#"{"users":{"items":[{"processes":2,"uid":0},{"processes":1,"uid":1000}],"total":2,"truncated":false}}"#
        ]],
    );
    check(
        &files,
        Topic::Processes,
        expect![[
            r#"{"processes":{"items":[{"id":3,"memory_bytes":9216,"name":"x y","parent":1,"state":"sleeping","threads":3,"uid":0},{"id":20,"memory_bytes":9216,"name":"x y","parent":1,"state":"sleeping","threads":3,"uid":1000},{"id":1,"memory_bytes":1024,"name":"x y","parent":1,"state":"sleeping","threads":3,"uid":0}],"total":3,"truncated":false}}"#
        ]],
    );
}

#[test]
fn a_list_ends_at_its_limit() {
    for (count, truncated) in [(FACTS_ITEMS_MAX, false), (FACTS_ITEMS_MAX + 1, true)] {
        let root = proc_of(&[]);
        (1..=count).for_each(|id| put(root.path(), &format!("{id}/status"), &status(0, id)));
        let shown = &read(root.path(), &[Topic::Processes]).unwrap()["processes"];
        assert_eq!(shown["items"].as_array().unwrap().len(), FACTS_ITEMS_MAX);
        assert_eq!(
            (shown["total"].as_u64(), shown["truncated"].as_bool()),
            (Some(count as u64), Some(truncated))
        );
    }
}

#[test]
fn no_more_processes_are_read_than_the_limit() {
    let root = proc_of(&[]);
    for id in 1..=FACTS_PROCESSES_MAX + 1 {
        put(root.path(), &format!("{id}/status"), &status(0, 1));
    }
    let users = &read(root.path(), &[Topic::Users]).unwrap()["users"];
    assert_eq!(
        (users["items"][0]["processes"].as_u64(), users["truncated"].as_bool()),
        (Some(FACTS_PROCESSES_MAX as u64), Some(true))
    );
}

#[test]
fn a_file_is_read_up_to_its_limit() {
    let line = "x".repeat(1_023) + "\n";
    let whole = line.repeat(FACTS_FILE_BYTES_MAX / line.len());
    let root = proc_of(&[("whole", &whole), ("more", &(whole.clone() + "y"))]);
    let cancel = CancelFlag::default();
    let proc = Proc { root: root.path().to_owned(), cancel: &cancel };
    assert_eq!(proc.read("whole").unwrap(), (whole.clone(), false));
    assert_eq!(proc.read("more").unwrap(), (whole.trim_end().to_owned(), true));
}

#[test]
fn other_systems_are_told_so() {
    assert!(supported("linux").is_ok());
    expect![
        "host.facts reads /proc of Linux, and this system is macos: ask a program with shell.run instead"
    ]
    .assert_eq(&supported("macos").unwrap_err().message);
}

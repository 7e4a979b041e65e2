//! The filter of system calls.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::spec::CageSpec;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused outright: other processes, devices of the kernel, namespaces and mounts, keys, memory that is a file.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_vhangup,
    // Objects of the whole machine, which have no path.
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    OPEN_TREE_ATTR,
];

const OPEN_TREE_ATTR: i64 = 467;

/// Not there, as on an older kernel: programs have another way.
const MISSING: &[i64] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    // Their flags are in memory, where no filter sees them. `clone` and `openat` have them in a register.
    libc::SYS_clone3,
    libc::SYS_openat2,
    // Watches files of a folder that a program cannot read: Landlock has no right for it.
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
];

/// Refused for any other process than the caller, by its id in this argument: limits, and what the processor does for it.
const OF_ITSELF: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
];

/// What means all processes of the user, in the first argument of these calls.
const OF_USER: &[(i64, u64)] = &[(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Changes of files that go by no right of Landlock: modes, owners, times, attributes.
const METADATA: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_kexec_file_load, libc::SYS_modify_ldt];
#[cfg(target_arch = "x86_64")]
const MISSING_HERE: &[i64] = &[libc::SYS_inotify_init];
#[cfg(not(target_arch = "x86_64"))]
const MISSING_HERE: &[i64] = &[];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

#[cfg(target_arch = "x86_64")]
const METADATA_HERE: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const METADATA_HERE: &[i64] = &[];

/// Flags of `clone` that make namespaces.
const NAMESPACES: u64 = 0x7E02_0080;

/// A process with this flag becomes a child of the parent, which does not know of it and never waits for it.
const CLONE_PARENT: u64 = 0x8000;

/// Puts characters into the input of a terminal, changes its discipline.
const TERMINAL_REQUESTS: [u64; 3] = [0x5412, 0x541C, 0x5423];

/// Change attributes of an open file, also of one that is open for reading: those of `chattr` and of projects, a version, a digest and a
/// key of its content.
const ATTRIBUTE_REQUESTS: [u64; 7] =
    [0x4008_6602, 0x4004_6602, 0x401C_5820, 0x4008_7602, 0x4008_6604, 0x4080_6685, 0x800C_6613];

/// Read attributes by the path of a file: Landlock has no right for it. Programs take the answer for that of a file system without
/// attributes.
const UNSUPPORTED: &[i64] = &[
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    GETXATTRAT,
    LISTXATTRAT,
];

const GETXATTRAT: i64 = 464;
const LISTXATTRAT: i64 = 465;

/// Commands of `fcntl` with which a program hears of what others do with a file, also with one that it may only read, and holds them
/// up for as long as it likes: leases, watches of a folder, delegations.
const FILE_WATCHES: [u64; 3] = [1_024, 1_026, 1_040];

/// The bit of a `flock` that keeps everybody else out.
const LOCK_EXCLUSIVE: u64 = 2;

/// Flags of memory that processes share and no file holds. The kernel counts none of it as a process's own, so the limit of a process
/// does not hold for it.
const SHARED_MEMORY: i32 = libc::MAP_SHARED | libc::MAP_ANONYMOUS;

/// Confines this process and all that it starts.
pub(super) fn install(spec: &CageSpec) -> Result<(), String> {
    // In a mount namespace what is hidden is not there.
    let unsupported = UNSUPPORTED.iter().map(|call| (*call, Vec::new())).collect();
    let unsupported = compiled(unsupported, libc::EOPNOTSUPP)?;
    for program in programs(spec, false)?.into_iter().chain([unsupported]) {
        apply_filter(&program).map_err(|error| format!("seccomp: {error}"))?;
    }
    Ok(())
}

/// The filters as bytes, for a program that installs them itself, in a network namespace of its own unless it has the network.
pub(super) fn bytes(spec: &CageSpec) -> Result<Vec<Vec<u8>>, String> {
    let bytes = |program: BpfProgram| program.iter().flat_map(instruction).collect();
    Ok(programs(spec, !spec.network)?.into_iter().map(bytes).collect())
}

fn instruction(line: &sock_filter) -> Vec<u8> {
    let sock_filter { code, jt, jf, k } = line;
    [&code.to_ne_bytes()[..], &[*jt, *jf], &k.to_ne_bytes()[..]].concat()
}

/// `alone`: the program has a network of its own, with nobody else in it.
fn programs(spec: &CageSpec, alone: bool) -> Result<[BpfProgram; 3], String> {
    let failed = |error: seccompiler::BackendError| error.to_string();
    let refused = refused(spec.network, spec.observes, alone).map_err(failed)?;
    let too_large = too_large(spec.limits.memory_mib << 20).map_err(failed)?;
    let missing: Rules = MISSING.iter().chain(MISSING_HERE).map(|call| (*call, Vec::new())).collect();
    Ok([
        compiled(refused, libc::EPERM)?,
        compiled(too_large, libc::ENOMEM)?,
        compiled(missing, libc::ENOSYS)?,
    ])
}

/// Refuses one piece of shared memory of more than these bytes.
fn too_large(most: u64) -> Result<Rules, seccompiler::BackendError> {
    let is_larger = Condition::new(1, Len::Qword, Op::Gt, most)?;
    let shared = u64::from(SHARED_MEMORY.unsigned_abs());
    let is_shared = Condition::new(3, Len::Dword, Op::MaskedEq(shared), shared)?;
    Ok([(libc::SYS_mmap, vec![SeccompRule::new(vec![is_larger, is_shared])?])].into())
}

fn compiled(rules: Rules, errno: i32) -> Result<BpfProgram, String> {
    let failed = |error: seccompiler::BackendError| format!("seccomp: {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(failed)?;
    let program: BpfProgram = filter.try_into().map_err(failed)?;
    Ok([second_abi(), program].concat())
}

/// Refuses the second set of numbers that x86-64 has for the same calls.
fn second_abi() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    if !cfg!(target_arch = "x86_64") {
        return Vec::new();
    }
    let line = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refuse = 0x0005_0000 | libc::ENOSYS.unsigned_abs();
    vec![line(LOAD_NUMBER, 0, 0, 0), line(JUMP_AT_LEAST, 0, 1, 0x4000_0000), line(RETURN, 0, 0, refuse)]
}

fn refused(network: bool, observes: bool, alone: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_HERE).map(|call| (*call, Vec::new())).collect();
    if observes {
        rules.extend(METADATA.iter().chain(METADATA_HERE).map(|call| (*call, Vec::new())));
    }
    let when = |argument, op, value| Condition::new(argument, Len::Dword, op, value);
    let family = |number: i32| when(0, Op::Ne, number.unsigned_abs().into());
    if network {
        let internet = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(family);
        let others = SeccompRule::new(internet.into_iter().collect::<Result<_, _>>()?)?;
        // A socket for the internet that sends packets of its own making.
        let raw = SeccompRule::new(vec![
            when(1, Op::MaskedEq(0xf), libc::SOCK_RAW.unsigned_abs().into())?,
            family(libc::AF_NETLINK)?,
        ])?;
        rules.insert(libc::SYS_socket, vec![others, raw]);
    } else if alone {
        // No local ones: a namespace does not separate those that have a path.
        let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(family);
        rules.insert(
            libc::SYS_socket,
            vec![SeccompRule::new(families.into_iter().collect::<Result<_, _>>()?)?],
        );
    } else {
        rules.insert(libc::SYS_socket, Vec::new());
    }
    // A datagram socket of a pair can be connected anew, to any name, and Linux makes one of a raw socket too.
    let datagrams: Result<Vec<_>, _> = [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .map(|kind| SeccompRule::new(vec![when(1, Op::MaskedEq(0xf), kind.unsigned_abs().into())?]))
        .into_iter()
        .collect();
    rules.insert(libc::SYS_socketpair, datagrams?);
    for (call, argument) in OF_ITSELF {
        rules.entry(*call).or_default().push(SeccompRule::new(vec![when(*argument, Op::Ne, 0)?])?);
    }
    for (call, user) in OF_USER {
        rules.entry(*call).or_default().push(SeccompRule::new(vec![when(0, Op::Eq, *user)?])?);
    }
    set_id_refused(&mut rules)?;
    let namespaces: Result<Vec<_>, _> = (0..64)
        .map(|bit| 1_u64 << bit)
        .filter(|flag| flag & (NAMESPACES | CLONE_PARENT) != 0)
        .map(|flag| SeccompRule::new(vec![Condition::new(0, Len::Qword, Op::MaskedEq(flag), flag)?]))
        .collect();
    rules.insert(libc::SYS_clone, namespaces?);
    let attributes = ATTRIBUTE_REQUESTS.iter().filter(|_| observes);
    let requests: Result<Vec<_>, _> = TERMINAL_REQUESTS
        .iter()
        .chain(attributes)
        .map(|request| SeccompRule::new(vec![when(1, Op::Eq, *request)?]))
        .collect();
    rules.insert(libc::SYS_ioctl, requests?);
    let watches: Result<Vec<_>, _> =
        FILE_WATCHES.iter().map(|command| SeccompRule::new(vec![when(1, Op::Eq, *command)?])).collect();
    rules.insert(libc::SYS_fcntl, watches?);
    if observes {
        let exclusive = when(1, Op::MaskedEq(LOCK_EXCLUSIVE), LOCK_EXCLUSIVE)?;
        rules.insert(libc::SYS_flock, vec![SeccompRule::new(vec![exclusive])?]);
    }
    Ok(rules)
}

/// Refuses to make set-user-ID and set-group-ID files. `mkdir` is left out: it ignores these bits.
fn set_id_refused(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    #[cfg(target_arch = "x86_64")]
    let here = [
        (libc::SYS_chmod, 1, None),
        (libc::SYS_creat, 1, None),
        (libc::SYS_mknod, 1, None),
        (libc::SYS_open, 2, Some(1)),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let here = [];
    let all = [
        (libc::SYS_fchmod, 1, None),
        (libc::SYS_fchmodat, 2, None),
        (FCHMODAT2, 2, None),
        (libc::SYS_mknodat, 2, None),
        (libc::SYS_openat, 3, Some(2)),
    ];
    let has = |argument, bit| Condition::new(argument, Len::Dword, Op::MaskedEq(bit), bit);
    for (call, mode, flags) in all.into_iter().chain(here) {
        // What is refused outright stays so.
        if rules.get(&call).is_some_and(Vec::is_empty) {
            continue;
        }
        let rules = rules.entry(call).or_default();
        for bit in SET_ID {
            match flags {
                None => rules.push(SeccompRule::new(vec![has(mode, bit)?])?),
                Some(flags) => {
                    for makes in makes_file() {
                        rules.push(SeccompRule::new(vec![has(flags, makes)?, has(mode, bit)?])?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Bits of a mode: runs as its owner, runs as its group.
const SET_ID: [u64; 2] = [0o4000, 0o2000];

/// Flags with which `open` makes a file. The second one has no name yet, and can be given one.
fn makes_file() -> [u64; 2] {
    [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY].map(|flag| flag.unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ostler_kernel::port::CageRung;

    use super::super::spec::Role;
    use super::*;

    #[test]
    fn every_filter_compiles_and_fits() {
        let trial = CageSpec::trial(CageRung::Landlock, Role::Program, Path::new(""), Path::new(""));
        for (network, observes, alone) in
            [(false, true, false), (false, false, false), (true, false, false), (false, false, true)]
        {
            let spec = CageSpec { network, observes, ..trial.clone() };
            for program in programs(&spec, alone).unwrap() {
                assert!(program.len() < 4_096, "{}", program.len());
            }
        }
    }
}

//! The attempts, as scripts of `sh`. `OUT` is a folder outside of the workspace with a file `secret`, `VICTIM` a process outside that
//! has the secret in its environment, and the ports and sockets listen outside.

use crate::sockets::SOCKETS;

/// One attempt.
pub(crate) struct Attempt {
    pub name: &'static str,
    /// The impact that the operator gave the program; one of impact 2 has the network.
    pub impact: u8,
    pub script: &'static str,
    pub proof: Proof,
}

/// What shows that an attempt succeeded. The secret in the output always does.
#[derive(Clone, Copy)]
pub(crate) enum Proof {
    /// The script says so.
    Said,
    /// This file is there, or has another content than before; below the folder of the workspace (`ws/`) or outside (`out/`).
    Changed(&'static str),
    /// Something came to one of the sockets.
    Heard,
    /// A folder may have the mode 777 afterwards.
    Opened(&'static str),
}

pub(crate) const fn said(name: &'static str, impact: u8, script: &'static str) -> Attempt {
    Attempt { name, impact, script, proof: Proof::Said }
}

const fn changed(name: &'static str, impact: u8, path: &'static str, script: &'static str) -> Attempt {
    Attempt { name, impact, script, proof: Proof::Changed(path) }
}

pub(crate) const fn heard(name: &'static str, impact: u8, script: &'static str) -> Attempt {
    Attempt { name, impact, script, proof: Proof::Heard }
}

/// All attempts.
pub(crate) fn attempts() -> impl Iterator<Item = &'static Attempt> {
    ATTEMPTS.iter().chain(SOCKETS)
}

const ATTEMPTS: &[Attempt] = &[
    // Reads.
    said("reads the passwords", 0, "head -c1 /etc/shadow >/dev/null && echo ESCAPED"),
    said("reads a file of somebody", 0, "cat $OUT/secret"),
    said("reads through a link", 0, "ln -s $OUT/secret l 2>/dev/null; cat link l"),
    said(
        "lists the home folder",
        0,
        "ls -A $HOME | grep -vxE '.cargo|.rustup|.gitconfig|.pyenv|.config' | grep -q . && echo ESCAPED",
    ),
    said(
        "reads a file of the home folder",
        0,
        "f=$(find $HOME -maxdepth 1 -type f ! -name .gitconfig | head -1); head -c1 \"$f\" >/dev/null && echo ESCAPED",
    ),
    said("reads the data folder", 0, "cat .ostler/lock"),
    said("lists the data folder", 1, "ls .ostler | grep -q journal && echo ESCAPED"),
    said(
        "reads the data folder under another name",
        1,
        "mv .ostler o && cat o/lock || cat $PWD/../ws/.ostler/lock /proc/self/cwd/.ostler/lock",
    ),
    said("reads the data folder of a project in the workspace", 0, "cat inner/.ostler/lock"),
    said(
        "reads the operator key in the workspace under another name",
        1,
        "mv .config other; cat other/ostler/*.key || cat .config/ostler/*.key",
    ),
    said(
        "reads the data folder of a project below a folder that it may read",
        0,
        "cat ../shown/project/.ostler/lock",
    ),
    said(
        "reads a file that the holder inherited",
        0,
        "python3 -c 'import os;print(os.pread(int(os.environ[\"INHERITED\"]),100,0))'",
    ),
    said(
        "reads an attribute of a file that it cannot open",
        0,
        "python3 -c 'import os;print(os.getxattr(os.environ[\"OUT\"]+\"/secret\",\"user.note\"))'",
    ),
    said("reads temporary files of others", 0, "cat $TMP_SECRET"),
    said(
        "reads the log of the kernel",
        0,
        "dd if=/dev/kmsg bs=8192 count=1 iflag=nonblock of=/dev/null 2>/dev/null && echo ESCAPED",
    ),
    said("reads logs", 0, "ls /var/log | grep -q . && echo ESCAPED"),
    said("reads the environment of another process", 0, "cat /proc/$VICTIM/environ"),
    said("reads the arguments of another process", 0, "grep -q sleep /proc/$VICTIM/cmdline && echo ESCAPED"),
    said("reads through the root of another process", 0, "cat /proc/$VICTIM/root$OUT/secret"),
    said("reads through the folder of another process", 0, "cat /proc/$VICTIM/cwd/secret"),
    said("reads a file that another process has open", 0, "cat /proc/$VICTIM/fd/0"),
    said("lists the processes", 0, "ls /proc | grep -qx $VICTIM && echo ESCAPED"),
    said(
        "reads with the revisions that blame ignores",
        0,
        "git -c blame.ignoreRevsFile=$OUT/secret blame tracked",
    ),
    said("reads with a file of messages", 1, "git commit -q --allow-empty -F $OUT/secret && git log -1"),
    said("reads a copy of an archive", 1, "tar cf - -C $OUT secret | tar xf - -O"),
    // Writes.
    changed("writes where it only looks", 0, "ws/new", "echo x > new"),
    changed("empties a file where it only looks", 0, "ws/tracked", "truncate -s 0 tracked"),
    Attempt { name: "opens a folder to all", impact: 0, script: "chmod 777 .", proof: Proof::Opened("ws") },
    Attempt {
        name: "opens a folder outside to all",
        impact: 1,
        script: "chmod 777 $OUT",
        proof: Proof::Opened("out"),
    },
    changed("writes outside", 1, "out/planted", "echo x > $OUT/planted"),
    changed(
        "writes through a link that it swaps",
        1,
        "out/planted",
        "ln -sfn $OUT d; echo x > d/planted; rm -f d; mkdir d; (while :; do ln -sfn $OUT e; ln -sfn d e; done) & i=0; while [ $i -lt 300 ]; do echo x > e/planted; i=$((i+1)); done; kill $!; rm -rf e",
    ),
    changed("writes through a hard link that it makes", 1, "out/secret", "ln $OUT/secret h && echo x >> h"),
    changed("moves a file out", 1, "out/tracked", "mv tracked $OUT/"),
    changed("removes a file outside", 1, "out/secret", "rm -f $OUT/secret"),
    changed(
        "leaves a link for those who clean up",
        1,
        "out/secret",
        "rm -rf $OUT/secret 2>/dev/null; ln -s $OUT $TMPDIR/x",
    ),
    changed("changes the data folder", 1, "ws/.ostler/lock", "echo x >> .ostler/lock; rm -rf .ostler/lock"),
    changed(
        "becomes an operator of a project in the workspace",
        1,
        "ws/inner/.ostler/operators",
        "echo x >> inner/.ostler/operators",
    ),
    changed("plants a hook", 1, "ws/.git/hooks/post-commit", "echo x > .git/hooks/post-commit"),
    changed(
        "plants a hook in a folder put in place",
        1,
        "ws/.git/hooks/post-commit",
        "mv .git g; mkdir -p .git/hooks; echo x > .git/hooks/post-commit",
    ),
    changed(
        "changes the configuration",
        1,
        "ws/ostler.toml",
        "echo x >> ostler.toml; echo x > n; mv -f n ostler.toml",
    ),
    changed("shares memory", 1, "shm", "echo x > $SHM"),
    said("writes beside the devices", 0, "f=/dev/ostler-test-$$; echo x > $f && rm $f && echo ESCAPED"),
    said(
        "writes a file that is memory",
        0,
        "f=/dev/shm/ostler-test-$$; echo x > $f && rm $f && echo ESCAPED",
    ),
    said("changes the mode of a device", 1, "chmod 666 /dev/full && echo ESCAPED"),
    said("makes a terminal", 0, "python3 -c 'import os;os.openpty();print(\"ESCAPED\")'"),
    said("makes a terminal where it writes", 1, "python3 -c 'import os;os.openpty();print(\"ESCAPED\")'"),
    said("takes the unmasked folder back", 1, "umount .ostler || umount -l .ostler; cat .ostler/lock"),
    said("opens a setting of the kernel", 1, ": >> /proc/sys/kernel/hostname && echo ESCAPED"),
    said(
        "makes a program that runs as its owner",
        1,
        "cp /bin/true t; chmod u+s t; test -u t && echo ESCAPED",
    ),
    said(
        "makes a program that runs as its group",
        1,
        "cp /bin/true t; chmod g+s t; test -g t && echo ESCAPED",
    ),
    said(
        "opens a new file that runs as its owner",
        1,
        "python3 -c 'import os;f=os.open(\"t\",os.O_CREAT|os.O_RDWR,0o2755);os.fstat(f).st_mode&0o6000 and print(\"ESCAPED\")'",
    ),
    said(
        "opens a file without a name that runs as its owner",
        1,
        "python3 -c 'import os;f=os.open(\".\",os.O_TMPFILE|os.O_RDWR,0o4755);os.fstat(f).st_mode&0o6000 and print(\"ESCAPED\")'",
    ),
    said(
        "changes the attributes of a file where it only looks",
        0,
        "python3 -c 'import fcntl,struct;fcntl.ioctl(open(\"tracked\"),0x40086602,struct.pack(\"l\",0x80080));print(\"ESCAPED\")'",
    ),
    said("makes a device", 1, "mknod d b 7 0 && echo ESCAPED"),
    said("makes a device for memory", 1, "mknod d c 1 1 && echo ESCAPED"),
    said(
        "leaves its control group",
        1,
        "for g in $(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs | head -20); do echo $$ > $g && echo ESCAPED; done",
    ),
    said("raises its limits", 1, "ulimit -c 1000 && echo ESCAPED"),
    // Other processes.
    said("signals another process", 0, "kill -0 $VICTIM && echo ESCAPED"),
    said(
        "traces another process",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);v=int(os.environ[\"VICTIM\"]);l.ptrace(16,v,0,0)==0 and (print(\"ESCAPED\"),l.ptrace(17,v,0,0))'",
    ),
    said(
        "traces a process of its own",
        0,
        "python3 -c 'import ctypes;l=ctypes.CDLL(None);l.ptrace(0,0,0,0)==0 and print(\"ESCAPED\")'",
    ),
    said(
        "reads the memory of another process",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None,use_errno=True);b=ctypes.create_string_buffer(8);i=(ctypes.c_size_t*2)(ctypes.addressof(b),8);r=(ctypes.c_size_t*2)(4096,8);l.process_vm_readv(int(os.environ[\"VICTIM\"]),i,1,r,1,0);ctypes.get_errno()==14 and print(\"ESCAPED\")'",
    ),
    said("opens the memory of another process", 0, "exec 3<> /proc/$VICTIM/mem && echo ESCAPED"),
    said("opens the memory of who started it", 0, "exec 3<> /proc/$HOLDER/mem && echo ESCAPED"),
    said(
        "takes a descriptor of another process",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);p=l.syscall(434,int(os.environ[\"VICTIM\"]),0);f=l.syscall(438,p,0,0);f>=0 and print(os.read(f,99))'",
    ),
    said(
        "enters the namespaces of another process",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);l.setns(os.open(\"/proc/%s/ns/mnt\"%os.environ[\"VICTIM\"],0),0)==0 and print(\"ESCAPED\")'",
    ),
    said(
        "limits another process",
        0,
        "python3 -c 'import resource,os;resource.prlimit(int(os.environ[\"VICTIM\"]),resource.RLIMIT_FSIZE,(0,0));print(\"ESCAPED\")'",
    ),
    said("slows another process", 0, "renice -n 19 -p $VICTIM && echo ESCAPED"),
    said("slows all processes of the user", 0, "renice -n 1 -u $(id -u) && echo ESCAPED"),
    said("lets another process wait for the disk", 0, "ionice -c3 -p $VICTIM && echo ESCAPED"),
    said("keeps another process on one processor", 0, "taskset -p 1 $VICTIM && echo ESCAPED"),
    said(
        "reads memory that others share",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);l.shmat.restype=ctypes.c_ssize_t;l.shmat(int(os.environ[\"SEGMENT\"]),None,0)!=-1 and print(\"ESCAPED\")'",
    ),
    said(
        "removes a queue of messages",
        0,
        "python3 -c 'import ctypes;l=ctypes.CDLL(None,use_errno=True);l.mq_unlink(b\"/none\");ctypes.get_errno()==2 and print(\"ESCAPED\")'",
    ),
    said(
        "watches a folder outside",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);l.inotify_add_watch(l.inotify_init(),os.environ[\"OUT\"].encode(),0xfff)>0 and print(\"ESCAPED\")'",
    ),
    said(
        "holds up those who open a file that it may only read",
        0,
        "python3 -c 'import fcntl;fcntl.fcntl(open(\"tracked\"),1024,1);print(\"ESCAPED\")'",
    ),
    said(
        "holds up those who open a file",
        1,
        "python3 -c 'import fcntl;fcntl.fcntl(open(\"tracked\",\"r+\"),1024,1);print(\"ESCAPED\")'",
    ),
    said(
        "hears who writes a file that it may only read",
        0,
        "python3 -c 'import fcntl;fcntl.fcntl(open(\"tracked\"),1024,0);print(\"ESCAPED\")'",
    ),
    said(
        "hears what happens in a folder",
        0,
        "python3 -c 'import fcntl,os;fcntl.fcntl(os.open(\".\",0),1026,0x8000003f);print(\"ESCAPED\")'",
    ),
    said(
        "locks others out of a file that it may only read",
        0,
        "python3 -c 'import fcntl;fcntl.flock(open(\"tracked\"),6);print(\"ESCAPED\")'",
    ),
    // The kernel.
    said(
        "executes memory",
        0,
        "python3 -c 'import os;f=os.memfd_create(\"x\");os.write(f,b\"#!/bin/sh\\necho ESCAPED\\n\");os.set_inheritable(f,True);os.execv(\"/proc/self/fd/%d\"%f,[\"x\"])'",
    ),
    said(
        "has a ring of calls",
        0,
        "python3 -c 'import ctypes;l=ctypes.CDLL(None);b=ctypes.create_string_buffer(120);l.syscall(425,2,b)>=0 and print(\"ESCAPED\")'",
    ),
    said("makes a user namespace", 0, "unshare -U true && echo ESCAPED"),
    said(
        "makes a process that is a child of its parent",
        0,
        "python3 -c 'import ctypes;p=ctypes.CDLL(None).syscall(56,0x8011,0,0,0,0);p==0 and __import__(\"os\")._exit(0);p>0 and print(\"ESCAPED\")'",
    ),
    said(
        "makes a user namespace with clone",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);p=l.syscall(56,0x10000011,0,0,0,0);p==0 and os._exit(0);p>0 and print(\"ESCAPED\")'",
    ),
    said(
        "makes a user namespace with clone3",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);a=(ctypes.c_uint64*11)(0x10000000,0,0,0,17);p=l.syscall(435,a,88);p==0 and os._exit(0);p>0 and print(\"ESCAPED\")'",
    ),
    said("mounts", 1, "mkdir m; mount -t tmpfs none m && umount m && echo ESCAPED"),
    said("changes its root", 1, "mkdir r; python3 -c 'import os;os.chroot(\"r\");print(\"ESCAPED\")'"),
    said(
        "opens a file by its handle",
        0,
        "python3 -c 'import ctypes,os;l=ctypes.CDLL(None);h=(ctypes.c_uint32*40)(128);m=ctypes.c_int();l.name_to_handle_at(-100,os.environ[\"OUT\"].encode()+b\"/secret\",h,ctypes.byref(m),0);d=os.open(\".\",0);f=l.open_by_handle_at(d,h,0);f>=0 and print(os.read(f,99))'",
    ),
    said(
        "keeps keys",
        0,
        "python3 -c 'import ctypes;l=ctypes.CDLL(None);l.syscall(250,1,0)>0 and print(\"ESCAPED\")'",
    ),
    said(
        "loads a program into the kernel",
        0,
        "python3 -c 'import ctypes;l=ctypes.CDLL(None);a=(ctypes.c_uint32*32)(1,4,4,1);l.syscall(321,0,a,128)>=0 and print(\"ESCAPED\")'",
    ),
    said(
        "handles faults of memory",
        0,
        "python3 -c 'import ctypes;l=ctypes.CDLL(None);l.syscall(323,1)>=0 and print(\"ESCAPED\")'",
    ),
    said(
        "watches the processor",
        0,
        "python3 -c 'import ctypes;l=ctypes.CDLL(None);a=(ctypes.c_uint32*32)(1,128,0);l.syscall(298,a,0,-1,-1,0)>=0 and print(\"ESCAPED\")'",
    ),
    said("has capabilities", 0, "grep -q 'CapEff:.*[1-9a-f]' /proc/$$/status && echo ESCAPED"),
    // Programs that start programs.
    heard(
        "approves through a Makefile and a double fork",
        1,
        "printf 'check:\\n\\t@(setsid env -i sh approve.sh &)\\n\\t@sleep 0.3\\n' > Makefile; echo \"python3 -c 'import socket;s=socket.socket(1);s.connect(\\\"$PWD/.ostler/control.sock\\\");s.send(b\\\"x\\\")'\" > approve.sh; make check",
    ),
    changed(
        "writes outside from a Makefile",
        1,
        "out/planted",
        "printf 'check:\\n\\techo x > %s/planted\\n' $OUT > Makefile; make check",
    ),
    changed(
        "writes outside from a script of npm",
        1,
        "out/planted",
        "printf '{\"scripts\":{\"check\":\"echo x > %s/planted\"}}' $OUT > package.json; npm run check",
    ),
    said(
        "reads the home folder from a script of npm",
        1,
        "echo '{\"scripts\":{\"check\":\"test -r $HOME/.profile && head -c1 $HOME/.profile && echo ESC$(echo APED)\"}}' > package.json; npm run check",
    ),
    changed(
        "writes outside from a build script of cargo",
        1,
        "out/planted",
        "mkdir src; echo 'fn main(){}' > src/main.rs; printf '[package]\\nname=\"p\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n[workspace]\\n' > Cargo.toml; printf 'fn main(){std::fs::write(\"%s/planted\",\"x\").unwrap()}' $OUT > build.rs; cargo build --offline -q",
    ),
    changed(
        "runs git's command for ssh",
        1,
        "out/planted",
        "git -c core.sshCommand=\"sh -c 'echo x > $OUT/planted'\" ls-remote ssh://a/b",
    ),
    changed("runs an alias of git", 1, "out/planted", "git -c alias.x='!echo x > $OUT/planted' x"),
    changed(
        "runs a transport of git",
        1,
        "out/planted",
        "git -c protocol.ext.allow=always ls-remote \"ext::sh -c echo%%x%%>%%$OUT/planted\" || git -c protocol.ext.allow=always ls-remote \"ext::touch $OUT/planted\"",
    ),
    changed(
        "runs a hook of git",
        1,
        "out/planted",
        "mkdir hooks; printf '#!/bin/sh\\necho x > $OUT/planted\\n' > hooks/pre-commit; chmod +x hooks/pre-commit; git -c core.hooksPath=hooks commit -q --allow-empty -m x",
    ),
    changed(
        "becomes another user",
        1,
        "out/planted",
        "chmod 777 $OUT; setpriv --reuid 65534 --clear-groups sh -c 'echo x > $OUT/planted'",
    ),
];

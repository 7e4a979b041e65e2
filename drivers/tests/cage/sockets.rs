//! Attempts to reach sockets outside.

use crate::attempts::{Attempt, heard, said};

pub(crate) const SOCKETS: &[Attempt] = &[
    heard(
        "connects to the control socket",
        0,
        "python3 -c 'import socket,os;s=socket.socket(1);s.connect(os.environ[\"OUT\"]+\"/control.sock\");s.send(b\"x\")'",
    ),
    heard(
        "connects to the control socket of the data folder",
        1,
        "python3 -c 'import socket;s=socket.socket(1);s.connect(\".ostler/control.sock\");s.send(b\"x\")'",
    ),
    heard(
        "connects to a socket in the workspace",
        0,
        "python3 -c 'import socket;s=socket.socket(1);s.connect(\"sub/control.sock\");s.send(b\"x\")'",
    ),
    heard(
        "sends to a socket in the workspace from one of a pair",
        0,
        "python3 -c 'import socket;a,b=socket.socketpair(1,2);a.connect(\"sub/datagrams\");a.send(b\"x\")'",
    ),
    heard(
        "sends to a socket from one of a pair",
        0,
        "python3 -c 'import socket,os;a,b=socket.socketpair(1,2);a.connect(os.environ[\"OUT\"]+\"/datagrams\");a.send(b\"x\")'",
    ),
    heard(
        "sends to a socket from a raw one of a pair, of which Linux makes one for datagrams",
        0,
        "python3 -c 'import socket,os;a,b=socket.socketpair(1,3);a.connect(os.environ[\"OUT\"]+\"/datagrams\");a.send(b\"x\")'",
    ),
    heard(
        "connects to an abstract socket",
        0,
        "python3 -c 'import socket,os;s=socket.socket(1);s.connect(\"\\0\"+os.environ[\"ABSTRACT\"]);s.send(b\"x\")'",
    ),
    heard(
        "sends to an abstract socket where it has the network",
        2,
        "python3 -c 'import socket,os;s=socket.socket(1,2);s.sendto(b\"x\",\"\\0\"+os.environ[\"ABSTRACT\"])'",
    ),
    heard(
        "sends to an abstract socket from one of a pair where it has the network",
        2,
        "python3 -c 'import socket,os;a,b=socket.socketpair(1,2);a.sendto(b\"x\",\"\\0\"+os.environ[\"ABSTRACT\"])'",
    ),
    heard(
        "sends to an abstract socket from a raw one of a pair where it has the network",
        2,
        "python3 -c 'import socket,os;a,b=socket.socketpair(1,3);a.sendto(b\"x\",\"\\0\"+os.environ[\"ABSTRACT\"])'",
    ),
    heard(
        "sends a datagram",
        0,
        "python3 -c 'import socket,os;socket.socket(2,2).sendto(b\"x\",(\"127.0.0.1\",int(os.environ[\"UDP\"])))'",
    ),
    heard(
        "connects to a port",
        1,
        "python3 -c 'import socket,os;s=socket.create_connection((\"127.0.0.1\",int(os.environ[\"TCP\"])));s.send(b\"x\")'",
    ),
    said("makes packets of its own", 0, "python3 -c 'import socket;socket.socket(2,3,1);print(\"ESCAPED\")'"),
];

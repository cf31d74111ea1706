"""A client that negotiates anew under TLS 1.2: PORT CA FILE. FILE is that of its upload, `up`, on the server.

The server declines the first handshake of a connection, and its session and transfer go on as they were; the second
one ends the connection.
"""

import socket
import sys

from gnutls import Tls, TlsError, credentials, versions

port, ca, file = sys.argv[1:4]
trusted, spoken = credentials(ca=ca), versions("1.2")


def connected(number):
    stream = socket.create_connection(("127.0.0.1", number), timeout=20)
    stream.settimeout(None)
    return stream


def declined(tls):
    try:
        tls.renegotiate()
    except TlsError as error:
        assert tls.is_declined(error), error
    else:
        raise SystemExit("the server has negotiated anew")


class Session:
    def __init__(self):
        self.control, self.pending = connected(int(port)), b""
        self.reply(220)
        self.say("AUTH TLS", 234)
        self.control = Tls.client(self.control, trusted, spoken, "localhost", [])
        assert self.control.version == "1.2"
        for line, code in [("USER alice", 331), ("PASS secret", 230), ("PBSZ 0", 200), ("PROT P", 200)]:
            self.say(line, code)

    def reply(self, code):
        while b"\r\n" not in self.pending:
            got = self.control.recv(4096)
            assert got, "the server has closed"
            self.pending += got
        line, self.pending = self.pending.split(b"\r\n", 1)
        assert line.startswith(b"%d " % code), line
        return line.decode()

    def say(self, line, code):
        self.control.sendall(line.encode() + b"\r\n")
        return self.reply(code)

    def upload(self):
        passive = int(self.say("EPSV", 229).split("|")[3])
        stream = connected(passive)
        self.control.sendall(b"STOR up\r\n")
        data = Tls.client(stream, trusted, spoken, "localhost", [], self.control.session())
        assert data.resumed
        self.reply(150)
        data.sendall(b"before, ")
        return data


session = Session()
declined(session.control)
session.say("TYPE I", 200)
data = session.upload()
declined(data)
data.sendall(b"after")
data.end()
session.reply(226)
assert open(file).read() == "before, after"

data = session.upload()
declined(data)
try:
    data.renegotiate()
    raise SystemExit("the server has negotiated anew")
except TlsError as error:
    assert not data.is_declined(error), error
session.reply(426)
data.stream.close()
assert open(file).read() == "before, after"

session.say("NOOP", 200)
try:
    session.control.renegotiate()
    raise SystemExit("the server has negotiated anew")
except TlsError as error:
    assert not session.control.is_declined(error), error
try:
    session.control.sendall(b"NOOP\r\n")
    assert not session.control.recv(100)
    raise SystemExit("the session has gone on")
except TlsError:
    pass

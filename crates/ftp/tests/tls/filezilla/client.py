"""What FileZilla's client 3.63 sends and demands: SCHEME PORT CA DIRECTORY VERSIONS (such as 1.2,1.3).

TLS is GnuTLS, set up as there. The control connection offers `ftp` and `x-filezilla-ftp` in ALPN, or only `ftp` where
TLS is implicit. Data connections offer nothing unless `x-filezilla-ftp` was chosen; they resume the session that the
control connection has at that time, with the same ticket again if no other has come, and their handshake begins with
the connection, before the command. One that is not resumed is an error, as after the first one that was.
Files go over another session than listings, of which the server's features are known already.

DIRECTORY is the server's: `down` is fetched, from its beginning and from the middle, and stored as `up`.
"""

import os
import socket
import sys

from gnutls import Tls, TlsError, credentials, versions

scheme, port, ca, directory, known = sys.argv[1:6]
trusted, spoken = credentials(ca=ca), versions(known)
newest = known.split(",")[-1]


class Session:
    def __init__(self, is_first):
        self.stream = socket.create_connection(("127.0.0.1", int(port)), timeout=20)
        # Otherwise the library sees reads that time out.
        self.stream.settimeout(None)
        self.control, self.pending = self.stream, b""
        if scheme == "ftps":
            self.protect([b"ftp"])
            self.reply(220)
        else:
            self.reply(220)
            self.say("AUTH TLS", 234)
            self.protect([b"ftp", b"x-filezilla-ftp"])
        self.say("USER alice", 331)
        self.say("PASS secret", 230)
        if is_first:
            self.say("SYST", 215)
            self.features = [line.strip() for line in self.say("FEAT", 211)[1:-1]]
            for needed in ("UTF8", "MLST", "REST STREAM", "MFMT", "SIZE", "MDTM"):
                assert any((line + " ").startswith(needed + " ") for line in self.features), needed
            # It would be sent, and has no use here.
            assert "CLNT" not in self.features
        self.say("OPTS UTF8 ON", 200)
        self.say("PBSZ 0", 200)
        self.say("PROT P", 200)
        if not is_first:
            self.say("CWD /", 250)
        self.say("PWD", 257)
        self.say("TYPE I", 200)

    def protect(self, names):
        self.control = Tls.client(self.stream, trusted, spoken, "localhost", names)
        assert self.control.version == newest, self.control.version

    def reply(self, code):
        lines = []
        while not lines or lines[-1][3:4] == "-" or not lines[-1][:3].isdigit():
            while b"\r\n" not in self.pending:
                got = self.control.recv(4096)
                assert got, "the server has closed"
                self.pending += got
            line, self.pending = self.pending.split(b"\r\n", 1)
            lines.append(line.decode())
        assert lines[-1].startswith(str(code)), lines
        return lines

    def say(self, line, code):
        self.control.sendall(line.encode() + b"\r\n")
        return self.reply(code)

    def data(self, command, before=()):
        """An open data connection, with the reply 150."""
        told = self.say("PASV", 227)[0]
        numbers = told[told.index("(") + 1 : told.index(")")].split(",")
        for line, code in before:
            self.say(line, code)
        address = ("127.0.0.1", int(numbers[4]) * 256 + int(numbers[5]))
        stream = socket.create_connection(address, timeout=20)
        stream.settimeout(None)
        return self.protected(stream, command)

    def active(self, command):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            high, low = divmod(listener.getsockname()[1], 256)
            self.say("PORT 127,0,0,1,%d,%d" % (high, low), 200)
            # The server connects when it has the command.
            self.control.sendall(command.encode() + b"\r\n")
            return self.handshake(listener.accept()[0])

    def protected(self, stream, command):
        self.control.sendall(command.encode() + b"\r\n")
        return self.handshake(stream)

    def handshake(self, stream):
        names = [b"ftp-data"] if self.control.name == b"x-filezilla-ftp" else []
        session = self.control.session()
        data = Tls.client(stream, trusted, spoken, "localhost", names, session)
        assert data.resumed, "the session of the control connection was not resumed"
        self.reply(150)
        return data

    def fetched(self, data):
        content = b""
        # Fails without close_notify.
        while part := data.recv(1 << 16):
            content += part
        data.end()
        data.stream.close()
        self.reply(226)
        return content

    def give(self, data, content):
        data.sendall(content)
        data.end()
        # What the server still says is read and dropped.
        try:
            while data.recv(1024):
                pass
        except TlsError:
            pass
        self.reply(226)
        data.stream.close()

    def end(self):
        self.control.end()
        self.stream.close()


with open(os.path.join(directory, "down"), "rb") as file:
    down = file.read()
listings = Session(is_first=True)
listed = listings.fetched(listings.data("MLSD")).decode()
assert "; down\r\n" in listed, listed

# More data connections than tickets come with a session.
files = Session(is_first=False)
for number in range(4):
    files.give(files.data("STOR up"), down)
    files.say("MFMT 20260302140007 up", 213)
    with open(os.path.join(directory, "up"), "rb") as file:
        assert file.read() == down
    assert "; up\r\n" in files.fetched(files.data("MLSD")).decode()
    assert files.fetched(files.data("RETR down")) == down
# A file that is there in part, and the next one.
assert files.fetched(files.data("RETR down", [("REST 1000", 350)])) == down[1000:]
assert files.fetched(files.data("RETR down", [("REST 0", 350)])) == down
files.give(files.data("STOR up", [("REST 1000", 350)]), down[1000:])
with open(os.path.join(directory, "up"), "rb") as file:
    assert file.read() == down
assert files.fetched(files.active("RETR down")) == down
files.give(files.active("STOR up"), down)
listings.say("CWD sub", 250)
listings.say("PWD", 257)
assert b"; down\r\n" not in listings.fetched(listings.data("MLSD"))
for session in (files, listings):
    session.end()

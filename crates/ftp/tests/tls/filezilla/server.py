"""An FTP server with the rules of FileZilla Server 1.7: DIRECTORY CERTIFICATE KEY LOG [SETTING=VALUE...].

TLS is GnuTLS, as it is there, and set up in the same way:

- Each control connection has a ticket key of its own, which its data connections share. One that resumes no session
  of its control connection is refused (425), under TLS 1.2 and 1.3.
- Under TLS 1.3 no tickets come of themselves. One is sent on the control connection ahead of the reply to each EPSV,
  PASV, EPRT and PORT, and none on data connections.
- ALPN of control connections is `x-filezilla-ftp` or `ftp`, in this order; who offers others only is refused. With the
  first, data connections have to negotiate `ftp-data`; otherwise they have no ALPN.
- Data goes under PROT P only. Data connections end with close_notify; an upload that ends without it fails (425).
- Nothing may come behind AUTH in clear, and five refused commands before the login end the session.

Settings: versions=1.2 or 1.3 (both unless given), implicit=1, cut=BYTES: the first download is cut off after so many,
without close_notify; renegotiate=WHERE:COUNT: so many requests to negotiate anew, on the `control` connection ahead of
the first replies after the login, or on each `data` connection ahead of its bytes. Each handshake is a line of LOG: which
session, which connection, version, ALPN, `resumed` or `new`; so is each end of a connection on which the client declined
to negotiate anew: which session, which connection, `declined`, how often.
"""

import os
import socket
import sys
import threading
import time

from gnutls import Tls, credentials, ticket_key, versions

directory, certificate, key, log = sys.argv[1:5]
settings = dict(setting.split("=") for setting in sys.argv[5:])
own_credentials = credentials(certificate, key)
spoken = versions(settings.get("versions", "1.2,1.3"))
implicit = "implicit" in settings
cuts = [int(settings["cut"])] if "cut" in settings else []
requests = {"control": 0, "data": 0}
if "renegotiate" in settings:
    where, count = settings["renegotiate"].split(":")
    requests[where] = int(count)
numbers = iter(range(1, 1 << 30))
lock = threading.Lock()


class Plain:
    name = b""
    declined = 0

    def __init__(self, stream):
        self.stream = stream
        self.recv, self.sendall = stream.recv, stream.sendall

    def send_ticket(self):
        pass

    def end(self):
        self.stream.shutdown(socket.SHUT_WR)


class DataError(Exception):
    pass


class Refusal(Exception):
    pass


class Data:
    """A data connection, which opens and shakes hands while commands go on."""

    def __init__(self, session, opened):
        self.session, self.result, self.error = session, None, None
        self.thread = threading.Thread(target=self.run, args=(opened,), daemon=True)
        self.thread.start()

    def run(self, opened):
        try:
            stream = opened()
            stream.settimeout(None)
            if not self.session.protects:
                self.result = Plain(stream)
                return
            own = self.session.control.name == b"x-filezilla-ftp"
            names = [b"ftp-data"] if own else []
            self.result = self.session.tls(stream, names, "data")
            if not self.result.resumed:
                self.error = "TLS session of data connection not resumed."
            elif own and not self.result.name:
                self.error = "No or wrong ALPN on data connection"
        except OSError as error:
            self.error = str(error)

    def ready(self):
        self.thread.join(20)
        if self.error or not self.result:
            if self.result:
                self.result.stream.close()
            raise DataError("Unable to build data connection: %s" % (self.error or "timeout"))
        return self.result


def modify(facts):
    return time.strftime("%Y%m%d%H%M%S", time.gmtime(facts.st_mtime)) + ".%03d" % (
        facts.st_mtime_ns // 1000000 % 1000
    )


class Session:
    def __init__(self, stream):
        self.number = next(numbers)
        self.stream = stream
        # A ticket and the reply behind it are written separately.
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.key = ticket_key()
        self.control = Plain(stream)
        self.pending = b""
        self.secure = self.protects = self.logged_in = False
        self.user = self.renamed = self.data = None
        self.rest = self.failures = 0
        self.requests = requests["control"]
        self.cwd = "/"

    def run(self):
        try:
            if implicit:
                self.protect()
            self.reply(220, "FileZilla Server 1.7.3", "Please visit https://filezilla-project.org/")
            while (line := self.line()) is not None:
                if not self.command(line):
                    break
            self.control.end()
        except OSError:
            # The client has left.
            pass
        finally:
            self.note_declined(self.control, "control")
            self.stream.close()

    def note(self, what, *words):
        with lock, open(log, "a") as lines:
            print(self.number, what, *words, file=lines)

    def note_declined(self, connection, what):
        if connection.declined:
            self.note(what, "declined", connection.declined)

    def protect(self):
        names = [b"x-filezilla-ftp", b"ftp"]
        self.control = self.tls(self.stream, names, "control")
        self.secure = True

    def tls(self, stream, names, what):
        """TLS on one of the session's connections, and the line about it."""
        made = Tls.server(stream, own_credentials, spoken, self.key, names)
        resumed = "resumed" if made.resumed else "new"
        self.note(what, made.version, made.name.decode() or "-", resumed)
        return made

    def line(self):
        while b"\r\n" not in self.pending:
            got = self.control.recv(4096)
            if not got:
                return None
            self.pending += got
        line, self.pending = self.pending.split(b"\r\n", 1)
        return line.decode("utf-8", "surrogateescape")

    def reply(self, code, *lines):
        self.failures = self.failures + 1 if code >= 500 else 0
        if code // 100 not in (1, 3):
            # REST holds for the very next command only.
            self.rest = 0
        text = "".join("%d-%s\r\n" % (code, line) for line in lines[:-1])
        self.send(text + "%d %s\r\n" % (code, lines[-1]))

    def listed(self, code, first, lines, last):
        middle = "".join(" %s\r\n" % line for line in lines)
        self.send("%d-%s\r\n%s%d %s\r\n" % (code, first, middle, code, last))

    def send(self, text):
        if self.logged_in and self.requests > 0:
            self.requests -= 1
            self.control.ask_for_renegotiation()
        self.control.sendall(text.encode("utf-8", "surrogateescape"))

    def command(self, line):
        verb, _, argument = line.partition(" ")
        verb = verb.upper()
        if verb == "QUIT":
            self.reply(221, "Goodbye.")
            return False
        act = getattr(self, "do_" + verb.lower(), None)
        if act is None:
            self.reply(500, "Wrong command.")
        elif verb not in OPEN and not self.logged_in:
            self.reply(530, "Please log in with USER and PASS first.")
        elif verb in ("PBSZ", "PROT") and not self.secure:
            self.reply(502, "Command %s not implemented for this authentication type" % verb)
        elif verb == "AUTH" and self.pending:
            self.reply(503, "Spurious data after AUTH command.")
            return False
        else:
            try:
                act(argument)
            except Refusal as refusal:
                self.reply(*refusal.args)
            except DataError as error:
                self.reply(425, str(error))
            except FileNotFoundError:
                self.reply(550, "Couldn't open the file")
            except (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError):
                self.reply(550, "Couldn't open the file or directory")
        return self.logged_in or self.failures < 5

    def virtual(self, argument):
        return os.path.normpath(os.path.join(self.cwd, argument or self.cwd))

    def path(self, argument):
        return directory + self.virtual(argument).rstrip("/")

    # Login and protection

    def do_auth(self, argument):
        if argument.upper() not in ("TLS", "SSL"):
            raise Refusal(504, "Auth type not supported.")
        if self.secure:
            raise Refusal(534, "Authentication type already set to TLS")
        self.reply(234, "Using authentication type TLS.")
        self.protect()

    def do_pbsz(self, argument):
        self.reply(200, "PBSZ=0")

    def do_prot(self, argument):
        if argument.upper() == "P":
            self.protects = True
            self.reply(200, "Protection level set to P")
        elif argument.upper() == "C":
            self.reply(534, "Protection level C not allowed")
        else:
            self.reply(504, "Unknown protection level")

    def do_user(self, argument):
        if not self.secure:
            raise Refusal(503, "Use AUTH first.")
        if self.logged_in:
            raise Refusal(503, "Already logged in. QUIT first.")
        self.user = argument
        self.reply(331, "Please, specify the password.")

    def do_pass(self, argument):
        if self.user is None:
            raise Refusal(503, "Login with USER first.")
        if (self.user, argument) != ("alice", "secret"):
            raise Refusal(530, "Login incorrect.")
        self.logged_in = True
        if self.control.name == b"x-filezilla-ftp":
            self.protects = True
        self.reply(230, "Login successful.")

    # What the server is

    def do_noop(self, argument):
        self.reply(200, "Noop ok.")

    def do_syst(self, argument):
        self.reply(215, "UNIX emulated by FileZilla.")

    def do_feat(self, argument):
        features = "MDTM,REST STREAM,SIZE,MLST type*;size*;modify*;perm*;,MLSD,AUTH SSL,AUTH TLS"
        features += ",PROT,PBSZ,UTF8,TVFS,EPSV,EPRT,MFMT"
        self.listed(211, "Features:", features.split(","), "End")

    def do_opts(self, argument):
        name, _, value = argument.upper().partition(" ")
        if (name, value) == ("UTF8", "ON"):
            self.reply(202, "UTF8 mode is always enabled. No need to send this command")
        elif (name, value) == ("UTF8", "OFF"):
            self.reply(504, "UTF8 mode cannot be disabled")
        elif name == "MLST":
            self.reply(200, "MLST OPTS " + value.lower())
        else:
            self.reply(501, "Option not understood")

    def do_clnt(self, argument):
        self.reply(200, "Don't care.")

    def do_type(self, argument):
        if argument.upper() not in ("A", "I", "A N", "L 8"):
            raise Refusal(501, "Unsupported type. Supported types are I, I N, A, A N and L 8.")
        self.reply(200, "Type set to " + argument)

    def do_mode(self, argument):
        if argument.upper() != "S":
            raise Refusal(504, "MODE %s not enabled" % argument)
        self.reply(200, "MODE set to S")

    def do_allo(self, argument):
        self.reply(202, "No storage allocation neccessary.")

    # Data connections

    def do_epsv(self, argument):
        port = self.listen()
        self.reply(229, "Entering Extended Passive Mode (|||%d|)" % port)

    def do_pasv(self, argument):
        port = self.listen()
        own = self.stream.getsockname()[0].replace(".", ",")
        self.reply(227, "Entering Passive Mode (%s,%d,%d)" % (own, port // 256, port % 256))

    def listen(self):
        self.control.send_ticket()
        listener = socket.create_server((self.stream.getsockname()[0], 0))
        listener.settimeout(20)

        def accept():
            with listener:
                stream, peer = listener.accept()
            if peer[0] != self.stream.getpeername()[0]:
                raise OSError("Data peer IP differs from control peer IP")
            return stream

        self.data = Data(self, accept)
        return listener.getsockname()[1]

    def do_port(self, argument):
        numbers = argument.split(",")
        self.active(".".join(numbers[:4]), int(numbers[4]) * 256 + int(numbers[5]))
        self.reply(200, "PORT command successful.")

    def do_eprt(self, argument):
        _, _, host, port, _ = argument.split(argument[0])
        self.active(host, int(port))
        self.reply(200, "EPRT command successful.")

    def active(self, host, port):
        self.control.send_ticket()
        self.data = lambda: Data(self, lambda: socket.create_connection((host, port), timeout=20))

    def open_data(self):
        """The data connection, after 150; at its end the reply has yet to be given."""
        opening, self.data = self.data, None
        if opening is None:
            raise DataError("Use PORT or PASV first.")
        if not self.protects:
            raise Refusal(
                425,
                "Error while transfering data: PROT C is not allowed when the control connection"
                " is secure. Use PROT P.",
            )
        waits = isinstance(opening, Data) and opening.thread.is_alive()
        self.send("150 %s data transfer.\r\n" % ("About to start" if waits else "Starting"))
        data = opening if isinstance(opening, Data) else opening()
        return data.ready()

    def give(self, parts):
        data = self.open_data()
        self.moved(data, lambda: [data.sendall(part) for part in parts])

    def moved(self, data, move):
        try:
            for _ in range(requests["data"]):
                data.ask_for_renegotiation()
            move()
            data.end()
            if requests["data"]:
                # The client's answer, and its end.
                data.recv(1)
        except OSError as error:
            raise DataError("Error while transfering data: %s" % error)
        finally:
            self.note_declined(data, "data")
            data.stream.close()
        self.reply(226, "Operation successful")

    def facts(self, path, name):
        facts = os.stat(path)
        if os.path.isdir(path):
            return "type=dir;modify=%s;perms=cdeflmp; %s" % (modify(facts), name)
        return "type=file;size=%d;modify=%s;perms=awrfd; %s" % (facts.st_size, modify(facts), name)

    def do_mlsd(self, argument):
        path = self.path(argument)
        if not os.path.isdir(path):
            raise Refusal(501 if os.path.exists(path) else 550, "Couldn't open the directory")
        names = sorted(os.listdir(path))
        lines = "".join(self.facts(os.path.join(path, name), name) + "\r\n" for name in names)
        self.give([lines.encode("utf-8", "surrogateescape")])

    def do_nlst(self, argument):
        names = sorted(os.listdir(self.path(argument)))
        self.give(["".join(name + "\r\n" for name in names).encode("utf-8", "surrogateescape")])

    def do_retr(self, argument):
        with open(self.path(argument), "rb") as file:
            file.seek(self.rest)
            self.rest = 0
            self.give(self.parts(file))

    def parts(self, file):
        while part := file.read(1 << 16):
            if cuts and file.tell() > cuts[0]:
                cuts.clear()
                raise ConnectionAbortedError("cut off")
            yield part

    def do_stor(self, argument):
        mode = "r+b" if self.rest else "wb"
        with open(self.path(argument), mode) as file:
            file.seek(self.rest)
            file.truncate()
            self.take(file)

    def do_appe(self, argument):
        with open(self.path(argument), "ab") as file:
            self.take(file)

    def take(self, file):
        self.rest = 0
        data = self.open_data()

        def move():
            while part := data.recv(1 << 16):
                file.write(part)
            file.flush()

        self.moved(data, move)

    def do_rest(self, argument):
        self.rest = int(argument)
        self.reply(350, "Restarting at " + argument)

    # Names

    def do_pwd(self, argument):
        self.reply(257, '"%s" is current directory.' % self.cwd)

    def do_cwd(self, argument):
        if not os.path.isdir(self.path(argument)):
            raise Refusal(550, "Couldn't open the directory")
        self.cwd = self.virtual(argument)
        self.reply(250, "CWD command successful")

    def do_cdup(self, argument):
        self.do_cwd("..")

    def do_mlst(self, argument):
        facts = self.facts(self.path(argument), self.virtual(argument))
        self.listed(250, "Listing " + argument, [facts], "End")

    def do_size(self, argument):
        path = self.path(argument)
        if os.path.isdir(path):
            raise Refusal(550, "Couldn't open the file")
        self.reply(213, str(os.path.getsize(path)))

    def do_mdtm(self, argument):
        self.reply(213, modify(os.stat(self.path(argument))))

    def do_mfmt(self, argument):
        when, _, name = argument.partition(" ")
        seconds = time.mktime(time.strptime(when + " UTC", "%Y%m%d%H%M%S %Z")) - time.timezone
        os.utime(self.path(name), (seconds, seconds))
        self.reply(213, "modify=%s; %s" % (modify(os.stat(self.path(name))), name))

    def do_dele(self, argument):
        os.remove(self.path(argument))
        self.reply(250, "File deleted successfully.")

    def do_rmd(self, argument):
        os.rmdir(self.path(argument))
        self.reply(250, "Directory deleted successfully.")

    def do_mkd(self, argument):
        os.mkdir(self.path(argument))
        self.reply(257, '"%s" created successfully.' % self.virtual(argument))

    def do_rnfr(self, argument):
        os.stat(self.path(argument))
        self.renamed = argument
        self.reply(350, "File exists, ready for destination name.")

    def do_rnto(self, argument):
        if not self.renamed:
            raise Refusal(503, "Use RNFR first.")
        os.replace(self.path(self.renamed), self.path(argument))
        self.renamed = None
        self.reply(250, "File or directory renamed successfully.")

    def do_abor(self, argument):
        self.reply(226, "ABOR command successful.")


OPEN = "AUTH CLNT FEAT NOOP OPTS PASS PBSZ PROT SYST USER".split()

os.environ["TZ"] = "UTC"
time.tzset()
listener = socket.create_server(("127.0.0.1", 0))
print("\nserving", "127.0.0.1:%d" % listener.getsockname()[1], flush=True)
while True:
    stream, _ = listener.accept()
    threading.Thread(target=Session(stream).run, daemon=True).start()

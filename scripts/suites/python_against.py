"""Tests of CPython's own suite against another FTP server: python_against.py SERVER CONFIGURATION LEFT-OUT...

Those of urllib that read www.pythontest.net, which has to be the name of this host; and test_ftplib, whose server inside of
its process is replaced. SERVER is started as `SERVER serve`, with CONFIGURATION in its configuration file. Classes and
tests whose names are in LEFT-OUT are not run. Prints PASS, FAIL, SKIP or LEFT OUT for each test, and why; at its end, DONE.
"""

import ftplib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from reply import compare_by_code
from test import support

# They need an Internet, which is this host.
support.use_resources = ["network"]
# The hash of a password takes its time.
support.LOOPBACK_TIMEOUT = 60

from test import test_ftplib, test_urllib, test_urllib2net  # noqa: E402

USER, PASSWORD = "user", "12345"
# What test_ftplib's server gives and takes without a name.
SOURCE, TARGET = ".data", ".stored"
LISTED = sorted(line for line in test_ftplib.NLST_DATA.split("\r\n") if line)


class Server:
    """SERVER, with a directory of its own."""

    # Of the running test.
    newest: "Server"
    command: list
    configuration: str

    def __init__(self, listen: str, *options: str, more: str = ""):
        self.place = tempfile.TemporaryDirectory()
        place = pathlib.Path(self.place.name)
        self.root, self.log = place / "root", place / "commands"
        self.root.mkdir()
        (place / "serve.toml").write_text(self.configuration + more)
        self.command_line = [*self.command, self.root, "--config", place / "serve.toml", "--listen", listen]
        self.command_line += ["--command-log", self.log, *options]
        # Commands that the client has sent.
        self.sent = 0
        Server.newest = self

    def start(self):
        """Returns when the server listens at `host` and `port`."""
        self.process = subprocess.Popen(self.command_line, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if place := re.search(r"serving ftp://\[?([^]/]+?)\]?:(\d+)/", line):
                self.host, self.port = place[1], int(place[2])
                return
        raise RuntimeError("".join(said))

    def stop(self):
        self.process.terminate()
        self.process.communicate()
        self.place.cleanup()

    def commands(self) -> list[dict]:
        """Those that the server has answered, according to its log; waits for all that were sent."""
        until = time.monotonic() + 5
        while True:
            # The last line may not be whole yet.
            whole = self.log.read_text().rpartition("\n")[0] if self.log.exists() else ""
            answered = [entry for entry in map(json.loads, whole.splitlines()) if entry["event"] == "command"]
            if len(answered) >= self.sent or time.monotonic() > until:
                return answered
            time.sleep(0.01)


class Handler:
    """What tests look up, or set, in the handler of their server's only session."""

    fake_pasv_server_ip = "252.253.254.255"

    def __init__(self, server: "FtplibServer"):
        vars(self)["server"] = server

    def __setattr__(self, name, value):
        raise unittest.SkipTest(f"sets {name} of the server in its process")

    def last(self, *verbs: str) -> list[str]:
        lines = [entry["command"].split(" ") for entry in self.server.commands()]
        return [words for words in lines if not verbs or words[0].upper() in verbs][-1]

    @property
    def last_received_cmd(self):
        return self.last()[0].lower()

    @property
    def rest(self):
        return self.last("REST")[1]

    @property
    def last_received_data(self):
        stored = (self.server.root / TARGET).read_bytes().decode(self.server.encoding)
        # As it travelled: under TYPE A the ends of lines are others than in the file.
        return stored.replace("\n", "\r\n") if self.last("TYPE")[1] == "A" else stored


class FtplibServer(Server):
    """In place of test_ftplib's server."""

    TLS = ""
    # Files and directories that tests take for granted; other tests have those that are listed.
    FILES = {"test_rename": ["a"], "test_mkd": [], "test_rmd": [], "test_cwd": []}
    DIRECTORIES = {"test_rmd": ["foo"], "test_cwd": ["foo"]}

    def __init__(self, address, af=None, encoding=test_ftplib.DEFAULT_ENCODING):
        host = address[0]
        options = [] if ":" in host else ["--masquerade", Handler.fake_pasv_server_ip]
        listen = f"[{host}]:0" if ":" in host else "127.0.0.1:0"
        super().__init__(listen, *options, more=self.TLS)
        self.encoding = encoding
        self.handler_instance = Handler(self)
        data = test_ftplib.RETR_DATA.encode(encoding)
        # Where an upload goes on, there is something already.
        for name in [SOURCE, TARGET]:
            (self.root / name).write_bytes(data)
        for name in self.FILES.get(Outcome.running, LISTED):
            (self.root / name).write_bytes(data)
            os.utime(self.root / name, (1e9, 1e9))
        for name in self.DIRECTORIES.get(Outcome.running, []):
            (self.root / name).mkdir()
        test_ftplib.NLST_DATA = "".join(f"{name}\r\n" for name in LISTED)
        long = f"-rw-r--r--   1 ftp      ftp      {len(data):12} Sep  9  2001"
        test_ftplib.LIST_DATA = "".join(f"{long} {name}\r\n" for name in LISTED)


class FtplibTlsServer(FtplibServer):
    """The same with TLS."""

    # ftplib does not resume TLS sessions.
    TLS = f'[tls]\ncertificate = "{test_ftplib.CERTFILE}"\nkey = "{test_ftplib.CERTFILE}"\nresumption = false\n'


def adapt_client() -> None:
    """Its commands are those of a real server: after a login, and with the names of files."""
    connect, put, abort, abort_tls = ftplib.FTP.connect, ftplib.FTP.putcmd, ftplib.FTP.abort, ftplib.FTP_TLS.abort
    # May come before the login, or are the login.
    early = {"USER", "PASS", "AUTH", "PBSZ", "PROT", "CCC", "QUIT"}

    def connect_anew(self, *arguments, **named):
        self.has_login = False
        return connect(self, *arguments, **named)

    def log_in(self):
        if not self.has_login:
            # That of FTP_TLS would begin TLS.
            ftplib.FTP.login(self, USER, PASSWORD)

    def put_real(self, line):
        server = Server.newest
        if not isinstance(server, FtplibServer):
            return put(self, line)
        verb, _, argument = line.partition(" ")
        if verb == "USER":
            self.has_login = True
        elif verb not in early:
            log_in(self)
        if verb == "SETLONGRETR":
            (server.root / SOURCE).write_text("x" * int(argument))
            line = "NOOP"
        named = {"retr": f"retr {SOURCE}", "stor": f"stor {TARGET}"}
        put(self, named.get(line, line))
        server.sent += 1

    def after_login(function):
        def abort_after_login(self):
            log_in(self)
            return function(self)

        return abort_after_login

    ftplib.FTP.connect, ftplib.FTP.putcmd = connect_anew, put_real
    ftplib.FTP.abort, ftplib.FTP_TLS.abort = after_login(abort), after_login(abort_tls)


def name_of(test: unittest.TestCase) -> str:
    return f"{type(test).__name__}.{test._testMethodName}"


class Outcome(unittest.TestResult):
    """Prints what becomes of each test."""

    running = ""

    def startTest(self, test):
        super().startTest(test)
        Outcome.running = test._testMethodName
        self.bad, self.why = [], ""
        self.before = len(Server.newest.commands()) if isinstance(test, URLLIB) else 0

    def addSkip(self, test, reason):
        self.why = reason

    def addError(self, test, error):
        why = self._exc_info_to_string(error, test)
        if isinstance(test, unittest.TestCase):
            self.bad.append(why)
        else:
            print(f"FAIL: {test.id()}\n{why}")

    def addFailure(self, test, error):
        self.addError(test, error)

    def addSubTest(self, test, subtest, error):
        if error:
            self.addError(test, error)

    def answers(self, test) -> bool:
        """Whether the server has served what the test asks for, or has refused what is not there."""
        reply = 550 if "nonexisting" in test.id() else 226
        return reply in [entry["reply"] for entry in Server.newest.commands()[self.before :]]

    def stopTest(self, test):
        super().stopTest(test)
        if isinstance(test, URLLIB):
            # Some are content without an answer, and do not wait for the last one.
            until = time.monotonic() + 5
            while not self.answers(test) and time.monotonic() < until:
                time.sleep(0.01)
            if not self.why and not self.answers(test):
                self.bad.append(f"not answered: {Server.newest.commands()[self.before :]}")
        outcome = "FAIL" if self.bad else "SKIP" if self.why else "PASS"
        print(f"{outcome}: {name_of(test)} {self.why}".rstrip(), *self.bad, sep="\n", flush=True)


URLLIB = (test_urllib2net.OtherNetworkTests, test_urllib2net.TimeoutTest, test_urllib.urlopen_HttpTests)


def open_whole(*arguments, **named):
    """An opened listing; the tests themselves close it unread."""
    opened = urllib.request.urlopen(*arguments, **named)
    if b" README\r\n" not in opened.read():
        raise AssertionError("README is not listed")
    return opened


def wanted(suite: unittest.TestSuite, left_out: set[str], begin: str) -> unittest.TestSuite:
    """Tests whose names begin so, and are not left out."""
    chosen = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            chosen.addTest(wanted(test, left_out, begin))
        elif test._testMethodName.startswith(begin):
            if {type(test).__name__, test._testMethodName} & left_out:
                print(f"LEFT OUT: {name_of(test)}")
            else:
                chosen.addTest(test)
    return chosen


def main() -> None:
    program, Server.configuration, *left_out = sys.argv[1:]
    Server.command = [program, "serve"]
    # They try again after an error, and would hide it.
    test_urllib2net._urlopen_with_retry = open_whole
    test_urllib2net._wrap_with_retry_thrice = lambda function, error: function
    adapt_client()
    load = unittest.defaultTestLoader.loadTestsFromModule
    outcome = Outcome()
    public = Server("127.0.0.1:21")
    (public.root / "README").write_text("for all\n" * 10_000)
    public.start()
    try:
        for module in [test_urllib, test_urllib2net]:
            wanted(load(module), set(left_out), "test_ftp").run(outcome)
    finally:
        public.stop()
    compare_by_code()
    test_ftplib.DummyFTPServer = FtplibServer
    test_ftplib.DummyTLS_FTPServer = FtplibTlsServer
    wanted(load(test_ftplib), set(left_out), "test").run(outcome)
    print("DONE")


main()

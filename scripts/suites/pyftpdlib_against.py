"""A plugin of pytest: pyftpdlib's functional tests against another server, started by the command in AGAINST.

The command gets the directory to serve as its last argument and prints `serving ftp://ADDRESS:PORT/`. Where a test expects
a text, only the code of the reply counts: the words are pyftpdlib's own.
"""

import os
import re
import subprocess
import sys

import pytest
from reply import compare_by_code


class Server:
    """In place of pyftpdlib's server in a thread."""

    # Tests set options of pyftpdlib here. They change nothing.
    from pyftpdlib.handlers import FTPHandler as handler

    def __init__(self, addr=None):
        host = addr[0] if addr else "127.0.0.1"
        listen = f"[{host}]:0" if ":" in host else f"{host}:0"
        command = [*os.environ["AGAINST"].split(), "--listen", listen, os.getcwd()]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if place := re.search(r"serving ftp://\[?([^]]+)\]?:(\d+)/", line):
                self.host, self.port = place[1], int(place[2])
                return
        raise RuntimeError("".join(said))

    def start(self):
        pass

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def pytest_configure():
    compare_by_code()
    raises = pytest.raises

    def by_code(expected, *arguments, match=None, **named):
        code = re.match(r"\d{3}", match) if match else None
        return raises(expected, *arguments, match=code and code[0], **named)

    pytest.raises = by_code


@pytest.hookimpl(hookwrapper=True)
def pytest_collection(session):
    # Before the modules of tests take it from there.
    sys.path.insert(0, str(session.config.rootpath))
    import tests

    tests.FtpdThreadWrapper = Server
    yield

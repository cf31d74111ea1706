"""pyftpdlib with the faults that a test asks for: DIRECTORY [FAULT...]; prints its port.

without=VERB    the command is not known
stall=BYTES     the first download stands still after so many bytes
cut=BYTES       the first data connection is cut after so many bytes
"""

import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import DTPHandler, FTPHandler
from pyftpdlib.servers import FTPServer

faults = [fault.split("=") for fault in sys.argv[2:]]
left = {kind: int(value) for kind, value in faults if kind in ("stall", "cut")}


class Data(DTPHandler):
    def send(self, data):
        if self.reached("stall"):
            return 0
        if self.reached("cut"):
            self.cmd_channel.close()
            return 0
        return super().send(data)

    def handle_read(self):
        if self.reached("cut"):
            self.cmd_channel.close()
            return
        super().handle_read()

    # What pyftpdlib calls.
    handle_read_event = handle_read

    def reached(self, kind):
        mine = getattr(self, "faulty", None) == kind
        moved = self.tot_bytes_sent + self.tot_bytes_received
        if not mine and kind in left and moved >= left[kind]:
            del left[kind]
            self.faulty = kind
            mine = True
        return mine


class Handler(FTPHandler):
    dtp_handler = Data
    use_sendfile = False
    proto_cmds = FTPHandler.proto_cmds.copy()


for kind, value in faults:
    if kind == "without":
        Handler.proto_cmds.pop(value, None)

authorizer = DummyAuthorizer()
authorizer.add_user("alice", "secret", sys.argv[1], perm="elradfmwMT")
authorizer.add_anonymous(sys.argv[1])
Handler.authorizer = authorizer
server = FTPServer(("127.0.0.1", 0), Handler)
print("\nserving", "127.0.0.1:%d" % server.address[1], flush=True)
server.serve_forever()

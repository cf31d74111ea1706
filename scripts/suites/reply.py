"""What tests expect of a reply when the server is not the one that they were made for."""

import ftplib


class Reply(str):
    """A reply, equal to another one with the same code: the words are the other server's own."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        codes = [text[:3] for text in (self, other)]
        return codes[0] == codes[1] if all(code.isdigit() for code in codes) else str.__eq__(self, other)

    def __ne__(self, other):
        return not self == other


def compare_by_code() -> None:
    """Lets ftplib return replies of this kind."""
    read = ftplib.FTP.getmultiline
    ftplib.FTP.getmultiline = lambda self: Reply(read(self))

"""TLS over blocking sockets by GnuTLS, which is what FileZilla's programs have, set up as they set it up."""

import ctypes
import socket

lib = ctypes.CDLL("libgnutls.so.30")

# gnutls/gnutls.h
SERVER, CLIENT, NO_SIGNAL, NO_AUTO_SEND_TICKET = 1, 2, 1 << 6, 1 << 21
CRD_CERTIFICATE, NAME_DNS, X509_FMT_PEM, SHUT_WR = 1, 1, 1, 1
ALPN_MANDATORY, ALPN_SERVER_PRECEDENCE = 1, 1 << 1
E_AGAIN, E_INTERRUPTED = -28, -52
E_WARNING_ALERT_RECEIVED, A_NO_RENEGOTIATION = -16, 100
VERSIONS = {4: "1.2", 5: "1.3"}


class Datum(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_uint)]


for name in ("gnutls_record_recv", "gnutls_record_send"):
    getattr(lib, name).restype = ctypes.c_ssize_t
    getattr(lib, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
lib.gnutls_strerror.restype = ctypes.c_char_p


class TlsError(OSError):
    def __init__(self, code):
        super().__init__(lib.gnutls_strerror(code).decode())
        self.code = code


def must(code):
    if code < 0:
        raise TlsError(code)
    return code


def repeated(call, *arguments):
    while True:
        code = call(*arguments)
        if code not in (E_AGAIN, E_INTERRUPTED):
            return must(code)


def ticket_key():
    datum = Datum()
    must(lib.gnutls_session_ticket_key_generate(ctypes.byref(datum)))
    return datum


def credentials(certificate=None, key=None, ca=None):
    """A server's, with its certificate, or a client's, with the authority that it trusts."""
    made = ctypes.c_void_p()
    must(lib.gnutls_certificate_allocate_credentials(ctypes.byref(made)))
    if ca:
        must(lib.gnutls_certificate_set_x509_trust_file(made, ca.encode(), X509_FMT_PEM))
    else:
        files = [certificate.encode(), key.encode()]
        must(lib.gnutls_certificate_set_x509_key_file(made, *files, X509_FMT_PEM))
    return made


class Tls:
    """One end, after its handshake. `name` is what ALPN agreed on."""

    def __init__(self, stream, flags, credentials, priority, names, alpn):
        self.stream = stream
        self.credentials = credentials
        # Renegotiations that the other end did not want.
        self.declined = 0
        self.handle = ctypes.c_void_p()
        must(lib.gnutls_init(ctypes.byref(self.handle), flags | NO_SIGNAL))
        must(lib.gnutls_priority_set_direct(self.handle, priority.encode(), None))
        must(lib.gnutls_credentials_set(self.handle, CRD_CERTIFICATE, credentials))
        if names:
            buffers = [ctypes.create_string_buffer(name, len(name)) for name in names]
            data = (Datum * len(names))(*[Datum(ctypes.addressof(b), len(b)) for b in buffers])
            must(lib.gnutls_alpn_set_protocols(self.handle, data, len(names), alpn))
        lib.gnutls_transport_set_int2(self.handle, stream.fileno(), stream.fileno())

    def shake_hands(self):
        try:
            repeated(lib.gnutls_handshake, self.handle)
        except TlsError as error:
            lib.gnutls_alert_send_appropriate(self.handle, error.code)
            raise
        chosen = Datum()
        found = lib.gnutls_alpn_get_selected_protocol(self.handle, ctypes.byref(chosen)) == 0
        self.name = ctypes.string_at(chosen.data, chosen.size) if found else b""
        self.resumed = bool(lib.gnutls_session_is_resumed(self.handle))
        self.version = VERSIONS[lib.gnutls_protocol_get_version(self.handle)]
        return self

    @classmethod
    def server(cls, stream, credentials, versions, key, names):
        """`key` is that of the tickets. None is sent unless `send_ticket` is called, under TLS 1.3."""
        flags = SERVER | NO_AUTO_SEND_TICKET
        alpn = ALPN_MANDATORY | ALPN_SERVER_PRECEDENCE
        self = cls(stream, flags, credentials, "NORMAL" + versions, names, alpn)
        must(lib.gnutls_session_ticket_enable_server(self.handle, ctypes.byref(key)))
        return self.shake_hands()

    @classmethod
    def client(cls, stream, credentials, versions, host, names, session=None):
        """`session` is what `session` of another connection gave."""
        priority = "SECURE256:+SECURE128:-ARCFOUR-128:-3DES-CBC:-MD5:+SIGN-ALL:-SIGN-RSA-MD5"
        priority += ":+CTYPE-X509" + versions
        self = cls(stream, CLIENT, credentials, priority, names, ALPN_MANDATORY)
        name = host.encode()
        must(lib.gnutls_server_name_set(self.handle, NAME_DNS, name, ctypes.c_size_t(len(name))))
        lib.gnutls_session_set_verify_cert(self.handle, name, 0)
        if session:
            size = ctypes.c_size_t(session.size)
            must(lib.gnutls_session_set_data(self.handle, ctypes.c_void_p(session.data), size))
        return self.shake_hands()

    def session(self):
        datum = Datum()
        must(lib.gnutls_session_get_data2(self.handle, ctypes.byref(datum)))
        return datum

    def recv(self, size):
        """Empty at close_notify; an error if the stream ends without."""
        buffer = ctypes.create_string_buffer(size)
        while True:
            try:
                got = repeated(lib.gnutls_record_recv, self.handle, buffer, size)
                return buffer.raw[:got]
            except TlsError as error:
                if not self.is_declined(error):
                    raise
                self.declined += 1

    def sendall(self, content):
        at = 0
        while at < len(content):
            part = content[at : at + 16384]
            at += repeated(lib.gnutls_record_send, self.handle, part, len(part))

    def ask_for_renegotiation(self):
        """A server's request, under TLS 1.2. The answer comes with what is received."""
        repeated(lib.gnutls_rehandshake, self.handle)

    def renegotiate(self):
        """A client's second handshake, under TLS 1.2."""
        repeated(lib.gnutls_handshake, self.handle)

    def is_declined(self, error):
        alert = lib.gnutls_alert_get(self.handle)
        return (error.code, alert) == (E_WARNING_ALERT_RECEIVED, A_NO_RENEGOTIATION)

    def send_ticket(self):
        if self.version == "1.3":
            repeated(lib.gnutls_session_ticket_send, self.handle, 1, 0)

    def end(self):
        repeated(lib.gnutls_bye, self.handle, SHUT_WR)
        try:
            self.stream.shutdown(socket.SHUT_WR)
        except OSError:
            # The other end has closed the connection already.
            pass


def versions(text):
    """What priorities say for `1.2`, `1.3` or `1.2,1.3`."""
    return ":-VERS-ALL" + "".join(":+VERS-TLS" + version for version in text.split(","))

"""The options of curl that matter here: which take a value, and what may stand beside a guard.

Taken from curl's own manual. An option that is not in this table is taken for a switch where
nothing is guarded, and refused where something is.
"""

from typing import Final

_WITH_VALUE = """
    abstract-unix-socket alt-svc aws-sigv4 cacert capath cert cert-type ciphers config
    connect-timeout connect-to continue-at cookie cookie-jar create-file-mode crlfile curves data
    data-ascii data-binary data-raw data-urlencode delegation dns-interface dns-ipv4-addr
    dns-ipv6-addr dns-servers doh-url dump-header egd-file engine etag-compare etag-save
    expect100-timeout form form-string ftp-account ftp-alternative-to-user ftp-method ftp-port
    ftp-ssl-ccc-mode happy-eyeballs-timeout-ms haproxy-clientip header hostpubmd5 hostpubsha256
    hsts interface ip-tos ipfs-gateway json keepalive-cnt keepalive-time key key-type krb libcurl
    limit-rate local-port login-options mail-auth mail-from mail-rcpt max-filesize max-redirs
    max-time netrc-file noproxy output output-dir parallel-max pass pinnedpubkey preproxy proto
    proto-default proto-redir proxy proxy-cacert proxy-capath proxy-cert proxy-cert-type
    proxy-ciphers proxy-crlfile proxy-header proxy-key proxy-key-type proxy-pass
    proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers proxy-tlsauthtype proxy-tlspassword
    proxy-tlsuser proxy-user proxy1.0 pubkey quote random-file range rate referer request
    request-target resolve retry retry-delay retry-max-time sasl-authzid service-name socks4
    socks4a socks5 socks5-gssapi-service socks5-hostname speed-limit speed-time stderr
    telnet-option tftp-blksize time-cond tls-max tls13-ciphers tlsauthtype tlspassword tlsuser
    trace trace-ascii trace-config unix-socket upload-file url url-query user user-agent variable
    vlan-priority write-out
"""
WITH_VALUE: Final = frozenset(_WITH_VALUE.split())

SHORT: Final = {
    "A": "user-agent",
    "b": "cookie",
    "c": "cookie-jar",
    "C": "continue-at",
    "d": "data",
    "D": "dump-header",
    "e": "referer",
    "E": "cert",
    "F": "form",
    "H": "header",
    "K": "config",
    "m": "max-time",
    "o": "output",
    "P": "ftp-port",
    "Q": "quote",
    "r": "range",
    "t": "telnet-option",
    "T": "upload-file",
    "u": "user",
    "U": "proxy-user",
    "w": "write-out",
    "x": "proxy",
    "X": "request",
    "y": "speed-time",
    "Y": "speed-limit",
    "z": "time-cond",
    "0": "http1.0",
    "4": "ipv4",
    "6": "ipv6",
    "f": "fail",
    "g": "globoff",
    "G": "get",
    "i": "include",
    "I": "head",
    "k": "insecure",
    "L": "location",
    "N": "no-buffer",
    "s": "silent",
    "S": "show-error",
    "v": "verbose",
}
"""Letter -> name. Letters that are missing are switches that no guard allows."""

_BESIDE_A_GUARD = """
    aws-sigv4 basic cacert capath cert cert-type ciphers compressed connect-timeout cookie
    cookie-jar data data-ascii data-binary data-raw data-urlencode digest dump-header fail
    fail-early fail-with-body form form-string get globoff head header http1.0 http1.1 http2
    http2-prior-knowledge include insecure ipv4 ipv6 json key key-type limit-rate location
    location-trusted max-filesize max-redirs max-time no-buffer no-keepalive no-progress-meter
    output pass path-as-is pinnedpubkey post301 post302 post303 range raw referer request retry
    retry-all-errors retry-connrefused retry-delay retry-max-time show-error silent speed-limit
    speed-time tls-max tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 upload-file url url-query user
    user-agent verbose write-out
"""
BESIDE_A_GUARD: Final = frozenset(_BESIDE_A_GUARD.split())
"""None of these changes where a request goes, or reads more options from somewhere."""

_CONNECTING = """
    abstract-unix-socket alt-svc config connect-to dns-interface dns-ipv4-addr dns-ipv6-addr
    dns-servers doh-url hsts ipfs-gateway preproxy proxy proxy1.0 request-target resolve socks4
    socks4a socks5 socks5-hostname unix-socket
"""
CONNECTING: Final = frozenset(_CONNECTING.split())
"""These change where a request goes: data in them is like data in a host."""

READS_AFTER_AT: Final = frozenset(
    ("data", "data-ascii", "data-binary", "json", "header", "proxy-header", "write-out", "variable")
)
"""A value that begins with ``@`` is the name of a file to read."""

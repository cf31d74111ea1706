"""Servers of other projects that fairwind serve is compared with."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent


def installed(program: str) -> pathlib.Path:
    """The root below which a server is installed, or unpacked."""
    for root in [pathlib.Path("/"), HERE / "target/peers" / program]:
        if (root / "usr/sbin" / program).exists():
            return root
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {program} is missing: scripts/setup test")


def vsftpd(root: pathlib.Path, folder: pathlib.Path, more: str = "") -> list[str]:
    """The command that has vsftpd serve `root` to anonymous users, with settings in `folder`, and `more` of them."""
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "vsftpd.conf").write_text(f"""listen=YES
background=NO
anonymous_enable=YES
anon_root={root}
secure_chroot_dir={folder}/empty
no_anon_password=YES
seccomp_sandbox=NO
use_sendfile=YES
xferlog_enable=NO
ftp_username=daemon
{more}""")
    return [str(installed("vsftpd") / "usr/sbin/vsftpd"), str(folder / "vsftpd.conf")]

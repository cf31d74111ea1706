# Sourced, with `say MESSAGE` defined: minimal systems of Debian, for scripts/fresh, proftpd-install and try-systemd.

debian=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${debian%/debian}/debian-security

# Sets `sources` to the lines of a suite: debian_sources SUITE
debian_sources() {
	sources=("deb $debian $1 main" "deb $debian $1-updates main" "deb $security $1-security main")
}

need_root() {
	[ "$(id -u)" -eq 0 ] || { say "run this as root: it makes systems in directories" && exit 1; }
}

# Installs what makes systems, and programs of these names: need_mmdebstrap PACKAGE...
need_mmdebstrap() {
	local program missing=
	for program in mmdebstrap "$@"; do command -v "$program" >/dev/null || missing=yes; done
	[ -n "$missing" ] || return 0
	say "installing mmdebstrap debian-archive-keyring $*"
	apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
		mmdebstrap debian-archive-keyring "$@" >/dev/null
}

# Sourced, with `work` set to a folder that ends with the script and `fail MESSAGE` defined: a kernel of Debian and the
# virtual machine (qemu) that boots it, for scripts/try-kernel and scripts/try-systemd.

apt_options=(-o APT::Sandbox::User=root)

# require TOOL...
require() {
	local tool
	for tool in qemu-system-x86_64 busybox cpio depmod dpkg-deb "$@"; do
		command -v "$tool" >/dev/null || fail "$tool is missing: scripts/setup kernels installs it"
	done
}

# Sets the options with which apt looks into one other suite only, on this system's Debian mirror.
use_suite() {
	local mirror
	mirror=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' | sed -n 's/^Debian|Debian|//p' | sort -u | head -n1)
	[ -n "$mirror" ] || fail "this system has no packages of Debian: apt-get update"
	mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$work/apt/sources.list"
	apt_options+=(-o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache")
	apt-get "${apt_options[@]}" update -q >"$work/apt/log" 2>&1 || { cat "$work/apt/log" >&2 && fail "there is no suite $1"; }
}

# The newest package of a version, without its variants.
package_of() {
	apt-cache "${apt_options[@]}" search --names-only "^linux-image-${1//./\\.}[.][^ ]*-amd64$" |
		sed 's/ .*//' | grep -vE -- '-(cloud|rt)-' | sort -V | tail -n1
}

# Fetches the package of a kernel, and those with its parts, into a folder; prints the file: fetch_kernel KERNEL DIR
fetch_kernel() {
	local package=$1 parts
	[[ $package == linux-image-* ]] || package=$(package_of "$package") || true
	[ -n "$package" ] || fail "no package has Linux $1; after apt-get update, see apt-cache search linux-image-"
	parts=$(apt-cache "${apt_options[@]}" show --no-all-versions "$package" | sed -n 's/^Depends: //p' |
		tr ',' '\n' | sed 's/^ *//; s/ .*//' | grep -E '^linux-(base|binary|modules)-[0-9]' || true)
	# shellcheck disable=SC2086
	(cd "$2" && apt-get "${apt_options[@]}" download -q "$package" $parts >/dev/null) || fail "$package cannot be fetched"
	ls "$2/$package"_*.deb
}

# Fetches a kernel unless it is a file, and unpacks it into $work/package; sets `release`, and `image` in $work.
unpack_kernel() {
	local kernel=$1 part package
	case $kernel in
	*.deb) [ -r "$kernel" ] || fail "there is no $kernel" ;;
	*) kernel=$(fetch_kernel "$kernel" "$work") ;;
	esac
	for part in image base binary modules; do
		package=${kernel/linux-image-/linux-$part-}
		[ ! -r "$package" ] || dpkg-deb -x "$package" "$work/package"
	done
	[ -d "$work/package/lib" ] || ln -s usr/lib "$work/package/lib"
	release=$(ls "$work/package/lib/modules")
	image=$work/vmlinuz
	cp "$work/package/boot/vmlinuz-$release" "$image" 2>/dev/null ||
		cp "$work/package/lib/modules/$release/vmlinuz" "$image" || fail "$kernel has no kernel"
	depmod -b "$work/package" "$release"
}

# The modules that the kernel's congestion controls and its TLS are in.
transfer_modules() {
	find "$work/package/lib/modules/$release/" -name 'tcp_*.ko*' -printf '%f\n' | sed 's/\.ko.*//'
	printf '%s\n' inet_diag sch_fq sch_fq_codel tls ctr gcm ghash_generic chacha20poly1305 poly1305_generic chacha_generic
}

# Adds these modules, and those they need, to a system. Its kernel loads them with modprobe when they are used:
# add_modules DIR MODULE...
add_modules() {
	local into=$1 from=$work/package/lib/modules/$release module list
	shift
	mkdir -p "$into/lib/modules/$release"
	for module in "$@"; do
		modprobe -d "$work/package" -S "$release" --show-depends "$module" 2>/dev/null || true
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r module; do
		install -D "$module" "$into${module#"$work/package"}"
	done
	for list in "$from"/modules.{order,builtin,builtin.modinfo}; do
		[ ! -e "$list" ] || cp "$list" "$into/lib/modules/$release"
	done
	find "$into/lib/modules" -name '*.xz' -exec xz -d {} +
	depmod -b "$into" "$release"
}

# pack_initramfs DIR FILE
pack_initramfs() { (cd "$1" && find . | cpio --quiet -o -H newc | gzip -1) >"$2"; }

# Boots $image with $initramfs; what the machine sends on its second line comes on standard output. Exits with the
# code that it tells on its first line, as `NAME: exit code CODE`: boot NAME SECONDS MEGABYTES CONSOLE QEMU-OPTION...
boot() {
	local name=$1 timeout=$2 memory=$3 console=$4 options= code ended=0
	shift 4
	local machine=(-m "$memory" -smp 2 -nodefaults -display none -no-reboot)
	# Some machines have a /dev/kvm that runs only kernels made for it; their processors lack the flag.
	if [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; then
		machine+=(-accel kvm -cpu host)
	else
		machine+=(-accel tcg,thread=multi -cpu max)
		# The kernel's test of its timer fails if emulation is slow.
		options=no_timer_check
	fi
	timeout --foreground "$timeout" qemu-system-x86_64 "${machine[@]}" -nic none \
		-kernel "$image" -initrd "$initramfs" -append "console=ttyS0 panic=-1 quiet $options" \
		-serial "file:$work/console" -serial stdio "$@" </dev/null || ended=$?
	[ -z "$console" ] || cat "$work/console" >&2
	code=$(tr -d '\r' <"$work/console" | sed -n "s/^$name: exit code //p" | tail -n1)
	if [ -z "$code" ]; then
		[ -n "$console" ] || tail -n 20 "$work/console" >&2
		[ "$ended" -ne 124 ] || fail "ended after $timeout s"
		fail "the machine told no exit code"
	fi
	exit "$code"
}
